import { EngineError } from "../../errors.ts";
import { WorkBudget } from "../../work-budget.ts";

/** The work budget of one value: a few milliseconds, and about ten thousand values or a megabyte of text. */
const VALUE_WORK = 16_384;
const CHARACTERS_PER_WORK = 64;
/** The most characters of a schema that is parsed, which takes one or two milliseconds of the main thread. */
const MAX_SCHEMA_LENGTH = 64 * 1024;

/** The JSON Schema keywords that are used to construct a value; all others are ignored. */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
};

/**
 * Parses the text of a schema; an empty text allows everything. Throws `EngineError` INVALID_SCHEMA for the field
 * `path` if the text is not JSON, and with the fault `costly` if it has more than 64 Ki characters.
 */
export function readSchema(schemaJson: string, path: string): Schema {
  if (schemaJson.length > MAX_SCHEMA_LENGTH)
    throw new EngineError("INVALID_SCHEMA", `${path}: the schema is too long to make a value of it.`, {
      fault: "costly",
      max_bytes: String(MAX_SCHEMA_LENGTH),
    });
  try {
    return JSON.parse(schemaJson || "{}");
  } catch (cause) {
    throw new EngineError("INVALID_SCHEMA", `${path}: the schema cannot be read.`, {}, cause);
  }
}

/**
 * Returns a small value that a plain schema accepts: only the required properties, the least numbers and lengths, the
 * first alternatives. Throws `EngineError` INVALID_SCHEMA if the value would be large.
 */
export function exampleValue(schema: Schema, budget = new WorkBudget(VALUE_WORK)): unknown {
  afford(budget, 1);
  const fixed = schema.const !== undefined ? schema.const : schema.enum?.[0];
  if (fixed !== undefined) {
    // The value is written at each occurrence.
    afford(budget, JSON.stringify(fixed).length / CHARACTERS_PER_WORK);
    return fixed;
  }
  const [alternative] = schema.anyOf ?? schema.oneOf ?? [];
  if (alternative) return exampleValue(alternative, budget);
  const { type, properties, required = [], minItems = 0, minLength = 0 } = schema;
  switch ((typeof type === "object" ? type[0] : type) ?? (properties ? "object" : "string")) {
    case "object":
      return Object.fromEntries(required.map((key) => [key, exampleValue(properties?.[key] ?? {}, budget)]));
    case "array":
      afford(budget, minItems);
      return Array.from({ length: minItems }, () => exampleValue(schema.items ?? {}, budget));
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "null":
      return null;
    default:
      afford(budget, minLength / CHARACTERS_PER_WORK);
      return "scripted".padEnd(minLength, "-");
  }
}

/** Pays before the work is done. Throws `EngineError` INVALID_SCHEMA if the budget is spent. */
function afford(budget: WorkBudget, work: number): void {
  if (budget.spend(Math.max(0, work))) return;
  throw new EngineError("INVALID_SCHEMA", "The smallest value of the schema is too large.", { fault: "costly" });
}
