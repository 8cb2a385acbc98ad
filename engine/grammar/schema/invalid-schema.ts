import { EngineError } from "../../errors.ts";

/** The schema exceeds the limits on the cost of a grammar, whatever its content. */
export class CostlySchema extends EngineError {}

/** `where` is the field, `#` and a JSON pointer with unusual keys masked; both are reported as facts. */
export function invalidSchema(where: string, what: string, facts?: SchemaFacts): EngineError {
  return new EngineError("INVALID_SCHEMA", ...of(where, what, facts));
}

export function costlySchema(where: string, what: string, facts?: SchemaFacts): CostlySchema {
  return new CostlySchema("INVALID_SCHEMA", ...of(where, what, { fault: "costly", ...facts }));
}

export type SchemaFacts = {
  /** Default: the schema is invalid or unsatisfiable. */
  readonly fault?: "costly" | "not_enforceable";
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
