import { EngineError } from "../../errors.ts";

/** The schema exceeds the limits on the cost of a grammar, whatever its content. */
export class CostlySchema extends EngineError {}

/**
 * Creates the error for an unusable schema. `where` is the field, `#` and a JSON pointer with unusual keys masked; both
 * are also reported as the facts `field` and `pointer`. `facts` are added to them.
 */
export function invalidSchema(where: string, what: string, facts?: SchemaFacts): EngineError {
  return new EngineError("INVALID_SCHEMA", ...of(where, what, facts));
}

/** Creates the error for a schema that costs too much, with the fact `fault: costly`. */
export function costlySchema(where: string, what: string, facts?: SchemaFacts): CostlySchema {
  return new CostlySchema("INVALID_SCHEMA", ...of(where, what, { fault: "costly", ...facts }));
}

/** Machine-readable details of an unusable schema, beside field and pointer. */
export type SchemaFacts = {
  /**
   * The fault: the schema costs too much to enforce, or has a keyword that cannot be enforced although the caller
   * requires it. Default: the schema is invalid or unsatisfiable.
   */
  readonly fault?: "costly" | "not_enforceable";
  /** The size limit that the schema exceeds, in bytes. Default: size is not the fault. */
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
