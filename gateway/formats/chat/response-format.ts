import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { invalidValue, missing, oneOf, wrongType } from "../field-error.ts";
import { schemaText } from "../json-schema-limits.ts";
import { requiredString } from "./content.ts";

const PATH = ["response_format"];
const SCHEMA_PATH = [...PATH, "json_schema"];
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Reads the `response_format` of a body; undefined for free text. Throws `ApiError` with the path of the first fault.
 */
export function readResponseFormat(value: unknown): OutputConstraint | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) throw wrongType(PATH, "an object", value);
  const type = requiredString(value.type, [...PATH, "type"]);
  if (type === "text") return undefined;
  if (type === "json_object") return { kind: { $case: "jsonObject", value: {} } };
  if (type !== "json_schema") throw oneOf([...PATH, "type"], ["text", "json_object", "json_schema"]);
  return readJsonSchema(value.json_schema);
}

function readJsonSchema(value: unknown): OutputConstraint {
  if (value === undefined || value === null) throw missing(SCHEMA_PATH);
  if (!isJsonObject(value)) throw wrongType(SCHEMA_PATH, "an object", value);
  const name = requiredString(value.name, [...SCHEMA_PATH, "name"]);
  if (!NAME.test(name))
    throw invalidValue([...SCHEMA_PATH, "name"], "expected 1 to 64 characters out of letters, digits, '_' and '-'.");
  if (value.schema === undefined || value.schema === null) throw missing([...SCHEMA_PATH, "schema"]);
  const strict = value.strict ?? false;
  if (typeof strict !== "boolean") throw wrongType([...SCHEMA_PATH, "strict"], "a boolean", strict);
  const schemaJson = schemaText(value.schema, [...SCHEMA_PATH, "schema"], "response", strict);
  return { kind: { $case: "jsonSchema", value: { name, schemaJson, strict } } };
}
