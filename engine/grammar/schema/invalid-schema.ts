import { EngineError } from "../../errors.ts";

/** Says of a schema that it is beyond the limits of what turning it into a grammar may cost, whatever it says. */
export class CostlySchema extends EngineError {}

/**
 * Makes the error for a schema that cannot be used. `where` is the field, `#` and a JSON pointer, in which unusual keys
 * are left out; both go into the facts too, as `field` and `pointer`. `facts` are further ones.
 */
export function invalidSchema(where: string, what: string, facts?: SchemaFacts): EngineError {
  return new EngineError("INVALID_SCHEMA", ...of(where, what, facts));
}

/** Makes the error for a schema that costs too much; the fact `fault` says so. The arguments are those of `invalidSchema`. */
export function costlySchema(where: string, what: string, facts?: SchemaFacts): CostlySchema {
  return new CostlySchema("INVALID_SCHEMA", ...of(where, what, { fault: "costly", ...facts }));
}

/** What a program may be told about a schema that cannot be used, beside where it stumbled. */
export type SchemaFacts = {
  /**
   * What is wrong: the schema costs too much to be enforced, or has a keyword that cannot be enforced although the
   * caller asked for all of it. Default: the schema is broken, or nothing can satisfy it.
   */
  readonly fault?: "costly" | "not_enforceable";
  /** The size, in bytes, that the schema exceeds. Default: its size is not what is wrong. */
  readonly max_bytes?: string;
};

function of(
  where: string,
  what: string,
  facts: SchemaFacts = {},
): readonly [message: string, facts: Readonly<Record<string, string>>] {
  const [field = "", pointer = ""] = where.split("#");
  return [`Invalid JSON Schema at ${where}: ${what}.`, { field, pointer, ...facts }];
}
