import { EngineError } from "../../errors.ts";

/** Says of a schema that it is beyond the limits of what turning it into a grammar may cost, whatever it says. */
export class CostlySchema extends EngineError {}

/**
 * Makes the error for a schema that cannot be used. `where` is the field, `#` and a JSON pointer, in which unusual keys
 * are left out; both go into the facts too, as `field` and `pointer`.
 */
export function invalidSchema(where: string, what: string): EngineError {
  return new EngineError("INVALID_SCHEMA", ...of(where, what));
}

/** Makes the error for a schema that costs too much. The arguments are those of `invalidSchema`. */
export function costlySchema(where: string, what: string): CostlySchema {
  return new CostlySchema("INVALID_SCHEMA", ...of(where, what));
}

function of(where: string, what: string): readonly [message: string, facts: Readonly<Record<string, string>>] {
  const [field = "", pointer = ""] = where.split("#");
  return [`Invalid JSON Schema at ${where}: ${what}.`, { field, pointer }];
}
