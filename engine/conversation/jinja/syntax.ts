/** A part of a parsed template: its type, and fields that hold other parts, lists of them or values. */
export type SyntaxNode = { readonly type: string; readonly [field: string]: unknown };

/** Whether a value is a part of a parsed template. */
export function isSyntaxNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/**
 * Goes through all parts of a template below a value, and calls `visit` for each of them, the inner ones first. Parts of
 * the types `but` are left out, with all below them.
 */
export function walk(value: unknown, visit: (node: SyntaxNode) => void, but: ReadonlySet<string> = NONE): void {
  if (isSyntaxNode(value) && but.has(value.type)) return;
  for (const part of partsOf(value)) walk(part, visit, but);
  if (isSyntaxNode(value)) visit(value);
}

const NONE: ReadonlySet<string> = new Set();

function partsOf(value: unknown): Iterable<unknown> {
  if (value instanceof Map || Array.isArray(value)) return value;
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}
