import * as z from "zod";

/** Writes a Markdown table. A cell may hold any text: bars and line breaks are escaped. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(header), `|${" --- |".repeat(header.length)}`, ...rows.map(line)].join("\n");
}

/** Writes a text as code. An empty text stays empty, because Markdown has no empty code. */
export function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** Writes a page of parts separated by empty lines. Its second line asks readers not to edit it. */
export function page(title: string, madeFrom: string, parts: readonly string[]): string {
  const notice = `<!-- Written by \`npm run docs\` from ${madeFrom}. Change those, and run it again. -->`;
  return `${[`# ${title}\n${notice}`, ...parts].join("\n\n")}\n`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

export type SchemaNode = z.core.JSONSchema.BaseSchema;

/** Returns the JSON Schema of a file, in draft 7, which editors support best. A field with a default may be omitted. */
export function fileSchema(schema: z.ZodType, title: string): SchemaNode {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: "input", target: "draft-7", override: withoutNoise });
  return { ...($schema && { $schema }), title, ...rest };
}

/** Removes zod's additions: the safe range as bounds of integers, and empty defaults of sections. */
function withoutNoise({ jsonSchema }: { readonly jsonSchema: SchemaNode }): void {
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.properties && jsonSchema.default !== undefined) delete jsonSchema.default;
}
