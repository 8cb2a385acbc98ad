import * as z from "zod";

/** A node of a JSON Schema as zod writes it. */
export type SchemaNode = z.core.JSONSchema.BaseSchema;

/** Returns the JSON Schema of a file, in draft 7, which editors support best. A field with a default may be omitted. */
export function fileSchema(schema: z.ZodType, title: string): SchemaNode {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: "input", target: "draft-7", override: withoutNoise });
  return { ...($schema && { $schema }), title, ...rest };
}

/**
 * Removes zod's additions: it bounds every integer by JavaScript's safe range, and gives every section an empty
 * default.
 */
function withoutNoise({ jsonSchema }: { readonly jsonSchema: SchemaNode }): void {
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.properties && jsonSchema.default !== undefined) delete jsonSchema.default;
}
