export type SyntaxNode = { readonly type: string; readonly [field: string]: unknown };

export function isSyntaxNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/** Visits inner nodes first; nodes of the types `but` are skipped with their content. */
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
