import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { invalidValue, missing, oneOf, wrongType } from "../field-error.ts";
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
  switch (value.type) {
    case "text":
      return { constraint: undefined, echo: { type: "text" } };
    case "json_object":
      return { constraint: { kind: { $case: "jsonObject", value: {} } }, echo: { type: "json_object" } };
    case "json_schema":
      return jsonSchema(value);
    case undefined:
    case null:
      throw missing([...PATH, "type"]);
    default:
      throw oneOf([...PATH, "type"], ["text", "json_object", "json_schema"]);
  }
}

function jsonSchema({ name, schema, strict, description }: JsonObject): TextFormat {
  if (name === undefined || name === null) throw missing([...PATH, "name"]);
  if (typeof name !== "string") throw wrongType([...PATH, "name"], "a string", name);
  if (!NAME.test(name))
    throw invalidValue([...PATH, "name"], "expected 1 to 64 characters out of letters, digits, '_' and '-'.");
  if (schema === undefined || schema === null) throw missing([...PATH, "schema"]);
  const schemaJson = schemaText(schema, [...PATH, "schema"], "response");
  const isStrict = strict ?? false;
  if (typeof isStrict !== "boolean") throw wrongType([...PATH, "strict"], "a boolean", strict);
  const about = description ?? null;
  if (about !== null && typeof about !== "string") throw wrongType([...PATH, "description"], "a string", about);
  return {
    constraint: { kind: { $case: "jsonSchema", value: { name, schemaJson, strict: isStrict } } },
    echo: { type: "json_schema", name, description: about, schema, strict: isStrict },
  };
}
