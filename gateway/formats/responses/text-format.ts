import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { invalidValue, missing, oneOf, unknownParameter, wrongType } from "../field-error.ts";
import { schemaText } from "../json-schema-limits.ts";

const PATH = ["text", "format"];

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * What `text.format` asks of the answer: `constraint` is what the engine holds the text to, undefined for free text,
 * and `echo` how the reply repeats it.
 */
export type TextFormat = { readonly constraint: OutputConstraint | undefined; readonly echo: object };

/**
 * Reads `text.format` ("Formats and choices of responses" in formats/README.md); absent is free text. Throws
 * `ApiError`.
 */
export function textFormat(value: unknown): TextFormat {
  if (value === undefined || value === null) return { constraint: undefined, echo: { type: "text" } };
  if (!isJsonObject(value)) throw wrongType(PATH, "an object", value);
  const { type, ...more } = value;
  switch (type) {
    case "text":
      refuseKeys(more);
      return { constraint: undefined, echo: { type: "text" } };
    case "json_object":
      refuseKeys(more);
      return { constraint: { kind: { $case: "jsonObject", value: {} } }, echo: { type: "json_object" } };
    case "json_schema":
      return jsonSchema(more);
    case undefined:
    case null:
      throw missing([...PATH, "type"]);
    default:
      throw oneOf([...PATH, "type"], ["text", "json_object", "json_schema"]);
  }
}

/** Throws `ApiError` for the first of the keys that a format has beside those of its type. */
function refuseKeys(unknown: JsonObject): void {
  for (const key of Object.keys(unknown)) throw unknownParameter(key, PATH);
}

function jsonSchema({ name, schema, strict, description, ...more }: JsonObject): TextFormat {
  if (name === undefined || name === null) throw missing([...PATH, "name"]);
  if (typeof name !== "string") throw wrongType([...PATH, "name"], "a string", name);
  if (!NAME.test(name))
    throw invalidValue([...PATH, "name"], "expected 1 to 64 characters out of letters, digits, '_' and '-'.");
  if (schema === undefined || schema === null) throw missing([...PATH, "schema"]);
  const isStrict = strict ?? false;
  if (typeof isStrict !== "boolean") throw wrongType([...PATH, "strict"], "a boolean", strict);
  const schemaJson = schemaText(schema, [...PATH, "schema"], "response", isStrict);
  const about = description ?? null;
  if (about !== null && typeof about !== "string") throw wrongType([...PATH, "description"], "a string", about);
  refuseKeys(more);
  return {
    constraint: { kind: { $case: "jsonSchema", value: { name, schemaJson, strict: isStrict } } },
    echo: { type: "json_schema", name, description: about, schema, strict: isStrict },
  };
}
