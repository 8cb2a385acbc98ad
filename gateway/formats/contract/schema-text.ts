import type { FieldPath } from "../../errors.ts";
import { invalidSchema } from "../field-error.ts";
import { MAX_SCHEMA_BYTES, schemaText } from "../json-schema-limits.ts";

/**
 * Checks a schema that the caller sent as text, and returns the text unchanged. Throws `ApiError` for text that is not
 * a JSON object, or beyond the limits of schemas.
 */
export function schemaAsSent(text: string, path: FieldPath, of: "response" | "function", strict: boolean): string {
  // A larger one is not parsed.
  if (Buffer.byteLength(text) > MAX_SCHEMA_BYTES)
    throw invalidSchema(path, `the schema is larger than ${MAX_SCHEMA_BYTES} bytes.`, of);
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    throw invalidSchema(path, "expected the JSON text of an object.", of);
  }
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    throw invalidSchema(path, "expected the JSON text of an object.", of);
  schemaText(schema, path, of, strict);
  return text;
}
