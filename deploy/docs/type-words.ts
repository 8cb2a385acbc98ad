import { code, type SchemaNode } from "./markdown.ts";

/** Returns the words for the type and range of a value. */
export function typeWords(node: SchemaNode): string {
  return [...new Set(choicesOf(node).flatMap(typesOf))].join(" or ");
}

function choicesOf(node: SchemaNode): readonly SchemaNode[] {
  const choices = [...(node.anyOf ?? []), ...(node.oneOf ?? [])] as readonly SchemaNode[];
  return choices.length === 0 ? [node] : choices.flatMap(choicesOf);
}

function typesOf(node: SchemaNode): readonly string[] {
  if (node.const !== undefined) return [code(String(node.const))];
  if (node.enum) return [node.enum.map((value) => code(String(value))).join(", ")];
  return [wordOf(node) + rangeOf(node)];
}

function wordOf({ type, items, additionalProperties }: SchemaNode): string {
  if (type === "array") return isNode(items) && Object.keys(items).length > 0 ? `list of ${manyOf(items)}` : "list";
  if (type === "object") return isNode(additionalProperties) ? `object of ${manyOf(additionalProperties)}` : "object";
  return typeof type === "string" ? type : "any";
}

function isNode(value: unknown): value is SchemaNode {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function manyOf(node: SchemaNode): string {
  const one = typeWords(node);
  return /^(?:string|number|integer|object)\b/.test(one) ? one.replace(/string|number|integer|object/, "$&s") : one;
}

function rangeOf(node: SchemaNode): string {
  const number = (value: number) => value.toLocaleString("en-US");
  const bounds = [
    node.minimum !== undefined && ` from ${number(node.minimum)}`,
    node.maximum !== undefined && ` to ${number(node.maximum)}`,
    node.minItems !== undefined && `, at least ${number(node.minItems)}`,
    node.maxLength !== undefined && ` of at most ${number(node.maxLength)} characters`,
  ];
  return bounds.filter((bound) => bound !== false).join("");
}
