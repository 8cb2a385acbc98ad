import { EngineError } from "../../errors.ts";
import { type Expression, parseExpression, UnsupportedPattern } from "../expressions/regular-expression.ts";
import type { SchemaFacts } from "../schema/invalid-schema.ts";
import { MAX_SCHEMA_BYTES, SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";

const MAX_ALL_BYTES = 2 * MAX_SCHEMA_BYTES;
const MAX_PATTERN = 1024;
const MAX_PATTERN_SIZE = 4096;

export type CompiledSchema = {
  readonly text: string;
  readonly at: string;
};

/** Engines have crashed on invalid types, expressions and cyclic references. Throws `EngineError` INVALID_SCHEMA. */
export function checkCompiledSchemas(compiled: readonly CompiledSchema[]): void {
  let bytes = 0;
  for (const { text, at } of compiled) {
    bytes += text.length;
    if (text.length > MAX_SCHEMA_BYTES) throw refused(at, "is too long", { max_bytes: String(MAX_SCHEMA_BYTES) });
    if (bytes > MAX_ALL_BYTES)
      throw refused(at, "is too long together with the schemas before it", { fault: "costly" });
    checkSchema(text, at);
  }
}

function checkSchema(text: string, at: string): void {
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    throw refused(at, "is not a JSON object");
  }
  const document = new SchemaDocument(schema, at);
  // Schemas reached only by a reference are added during the iteration.
  for (const node of document.schemas) {
    if (typeof node.schema === "boolean") continue;
    const { pattern, patternProperties } = node.schema;
    if (typeof pattern === "string") checkPattern(pattern, document, `${node.pointer}/pattern`);
    for (const key of Object.keys(patternProperties ?? {}))
      checkPattern(key, document, `${node.pointer}/patternProperties`);
    checkReference(node, document);
  }
}

/** Follows chains of references: each must resolve inside the schema, without a cycle. */
function checkReference(from: SchemaNode, document: SchemaDocument): void {
  const seen = new Set<SchemaNode>();
  for (let node: SchemaNode | undefined = from; node && typeof node.schema === "object"; ) {
    const { $ref } = node.schema;
    if (typeof $ref !== "string") return;
    const pointer = `${node.pointer}/$ref`;
    if (seen.has(node)) document.fail(pointer, "leads back to itself");
    seen.add(node);
    node = document.resolve(node);
    if (!node) document.fail(pointer, "names another document");
  }
}

function checkPattern(pattern: string, document: SchemaDocument, pointer: string): void {
  if (pattern.length > MAX_PATTERN) document.fail(pointer, "is too long a regular expression");
  if (!isExpression(pattern)) document.fail(pointer, "must be a regular expression");
  if (sizeOf(pattern) > MAX_PATTERN_SIZE) document.fail(pointer, "counts too far");
}

function isExpression(pattern: string): boolean {
  return ["u", ""].some((flags) => {
    try {
      return new RegExp(pattern, flags) instanceof RegExp;
    } catch {
      // Without the flag, more patterns are valid.
      return false;
    }
  });
}

/** Returns the length of a pattern with its counts expanded; for an unsupported one, the product of its counts. */
function sizeOf(pattern: string): number {
  try {
    return written(parseExpression(pattern));
  } catch (error) {
    if (!(error instanceof UnsupportedPattern)) throw error;
    const counts = [...pattern.matchAll(/\{(\d+)(?:,(\d*))?\}/g)];
    return counts.reduce((size, [, min, max]) => size * Math.max(1, Number(min), Number(max ?? 0)), 1);
  }
}

function written(expression: Expression): number {
  switch (expression.kind) {
    case "sequence":
      return expression.parts.reduce((sum, part) => sum + written(part), 0);
    case "choice":
      return expression.options.reduce((sum, part) => sum + written(part), 0);
    case "repeat":
      return written(expression.part) * Math.max(1, expression.min, expression.max ?? 0);
    default:
      return 1;
  }
}

function refused(at: string, what: string, facts: SchemaFacts = {}): EngineError {
  return new EngineError("INVALID_SCHEMA", `Invalid JSON Schema at ${at}: it ${what}.`, { field: at, ...facts });
}
