/**
 * The parts of a JSON Schema that say enough to make one value of it. They mean what JSON Schema says; all others are
 * left out of account.
 */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
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
