import { EngineError } from "../errors.ts";
import { WorkBudget } from "../work-budget.ts";

/** The work that making a value may cost: a few milliseconds, and some ten thousand values or a megabyte of text. */
const VALUE_WORK = 16_384;

/**
 * The parts of a JSON Schema that say enough to make one value of it. They mean what JSON Schema says; all others are
 * left out of account.
 */
export type Schema = {
  /** The type of the value, or the types that it may have. */
  readonly type?: string | readonly string[];
  /** The values that are allowed, of which the first is taken. */
  readonly enum?: readonly unknown[];
  /** The only value that is allowed. */
  readonly const?: unknown;
  /** The value that stands for an absent one. */
  readonly default?: unknown;
  /** The schemas of an object's properties by name. */
  readonly properties?: Readonly<Record<string, Schema>>;
  /** The names of the properties that an object must have. */
  readonly required?: readonly string[];
  /** The schema of the items of a list. */
  readonly items?: Schema;
  /** The least number of items. */
  readonly minItems?: number;
  /** The least number. */
  readonly minimum?: number;
  /** The least number of characters. */
  readonly minLength?: number;
  /** The schemas of which at least one has to hold. */
  readonly anyOf?: readonly Schema[];
  /** The schemas of which exactly one has to hold. */
  readonly oneOf?: readonly Schema[];
};

/** The most characters of a schema that is read, which takes a millisecond or two of the thread that makes tokens. */
const MAX_SCHEMA_LENGTH = 64 * 1024;

/**
 * Reads the text of a schema, of which an example is to be made; without any text the schema allows everything. Throws
 * `EngineError` INVALID_SCHEMA for the field `path` where the text is no JSON, and with the fault `costly` where it has
 * more than 64 Ki characters.
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
 * Returns a small value that a plain schema accepts: with the required properties only, and the least of every number
 * and length. Of alternatives it takes the first one. Throws `EngineError` INVALID_SCHEMA where the value would be large.
 */
export function exampleValue(schema: Schema): unknown {
  return exampleFor(schema, new WorkBudget(VALUE_WORK));
}

function exampleFor(schema: Schema, budget: WorkBudget): unknown {
  afford(budget, 1);
  const fixed = schema.const !== undefined ? schema.const : schema.enum?.[0];
  if (fixed !== undefined) {
    // It is written at each of its places.
    afford(budget, JSON.stringify(fixed).length / CHARACTERS_PER_WORK);
    return fixed;
  }
  const [alternative] = schema.anyOf ?? schema.oneOf ?? [];
  if (alternative) return exampleFor(alternative, budget);
  const type = typeof schema.type === "object" ? schema.type[0] : schema.type;
  switch (type ?? (schema.properties ? "object" : "string")) {
    case "object": {
      const required = schema.required ?? [];
      return Object.fromEntries(required.map((key) => [key, exampleFor(schema.properties?.[key] ?? {}, budget)]));
    }
    case "array": {
      const { minItems = 0, items = {} } = schema;
      afford(budget, minItems);
      return Array.from({ length: minItems }, () => exampleFor(items, budget));
    }
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "null":
      return null;
    default: {
      const { minLength = 0 } = schema;
      afford(budget, minLength / CHARACTERS_PER_WORK);
      return "scripted".padEnd(minLength, "-");
    }
  }
}

/** The characters of a text that cost a step. */
const CHARACTERS_PER_WORK = 64;

/** Pays before anything is made, nothing for less than none. Throws `EngineError` INVALID_SCHEMA where too little is left. */
function afford(budget: WorkBudget, work: number): void {
  if (budget.spend(Math.max(0, work))) return;
  throw new EngineError("INVALID_SCHEMA", "The smallest value of the schema is too large.", { fault: "costly" });
}
