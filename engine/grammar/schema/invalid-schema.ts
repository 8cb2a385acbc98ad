import { EngineError } from "../../errors.ts";

/**
 * Makes the error for a schema that cannot be used. `where` is the field, `#` and a JSON pointer, in which unusual keys
 * are left out; both go into the facts too, as `field` and `pointer`.
 */
export function invalidSchema(where: string, what: string): EngineError {
  const [field = "", pointer = ""] = where.split("#");
  return new EngineError("INVALID_SCHEMA", `Invalid JSON Schema at ${where}: ${what}.`, { field, pointer });
}
