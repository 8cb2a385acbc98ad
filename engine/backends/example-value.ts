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

/**
 * Returns a small value that a plain schema accepts: with the required properties only, and the least of every number
 * and length. Of alternatives it takes the first one.
 */
export function exampleValue(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [alternative] = schema.anyOf ?? schema.oneOf ?? [];
  if (alternative) return exampleValue(alternative);
  const type = typeof schema.type === "object" ? schema.type[0] : schema.type;
  switch (type ?? (schema.properties ? "object" : "string")) {
    case "object": {
      const required = schema.required ?? [];
      return Object.fromEntries(required.map((key) => [key, exampleValue(schema.properties?.[key] ?? {})]));
    }
    case "array":
      return Array.from({ length: schema.minItems ?? 0 }, () => exampleValue(schema.items ?? {}));
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "null":
      return null;
    default:
      return "scripted".padEnd(schema.minLength ?? 0, "-");
  }
}
