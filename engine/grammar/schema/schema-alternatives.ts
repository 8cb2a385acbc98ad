import type { WorkBudget } from "../../work-budget.ts";
import { isList, type SchemaDocument, type SchemaNode } from "./schema-document.ts";
import type { PlainNode } from "./schema-facets.ts";

const MAX_ALTERNATIVES = 256;

/** Nodes that are to be satisfied: one, with the nodes that led to it, and then others; undefined is none. */
type Todo =
  | { readonly node: SchemaNode; readonly from: Path | undefined; readonly others: Todo | undefined }
  | undefined;
/** The nodes that led to one, the newest first. */
type Path = { readonly id: number; readonly before: Path | undefined };

/**
 * Returns the ways to satisfy nodes, in each of which all plain nodes hold at once by their own keywords. Resolves
 * `$ref`, `allOf`, `anyOf` and `oneOf` (read as `anyOf`). A schema that refers to itself without anything between adds
 * no way of its own. `skipReference` is told of references to other documents.
 *
 * Throws `EngineError` INVALID_SCHEMA where there are too many ways, and `WorkSpent`.
 */
export function alternatives(
  nodes: readonly SchemaNode[],
  document: SchemaDocument,
  skipReference: (node: PlainNode) => void,
  budget: WorkBudget,
): readonly (readonly PlainNode[])[] {
  const results: (readonly PlainNode[])[] = [];
  /** What holds on the way that is being followed. */
  const holds = new Map<number, PlainNode>();
  const follow = (from: Todo): void => {
    let todo = from;
    for (; todo !== undefined; todo = todo.others) {
      const { node } = todo;
      budget.pay(1);
      if (node.schema === false || leadsToItself(todo, budget)) return;
      if (isPlain(node) && !holds.has(node.id)) break;
    }
    if (todo === undefined) {
      if (results.length >= MAX_ALTERNATIVES) document.tooCostly("", "has too many alternatives");
      budget.pay(holds.size);
      results.push([...holds.values()]);
    } else if (isPlain(todo.node)) expand(todo.node, { id: todo.node.id, before: todo.from }, todo.others);
  };
  const expand = (node: PlainNode, path: Path, others: Todo): void => {
    const target = referenced(node, document, skipReference);
    const together = [...(target === undefined ? [] : [target]), ...listed(node, "allOf", document)];
    const anyOf = listed(node, "anyOf", document);
    const oneOf = listed(node, "oneOf", document);
    budget.pay(together.length + anyOf.length + oneOf.length);
    const following = together.reduceRight<Todo>((todo, each) => ({ node: each, from: path, others: todo }), others);
    holds.set(node.id, node);
    for (const second of oneOrNone(oneOf)) {
      const behind: Todo = second ? { node: second, from: path, others: following } : following;
      for (const first of oneOrNone(anyOf)) follow(first ? { node: first, from: path, others: behind } : behind);
    }
    holds.delete(node.id);
  };
  follow(nodes.reduceRight<Todo>((others, node) => ({ node, from: undefined, others }), undefined));
  return results;
}

function isPlain(node: SchemaNode): node is PlainNode {
  return typeof node.schema === "object";
}

function leadsToItself({ node, from }: NonNullable<Todo>, budget: WorkBudget): boolean {
  for (let path = from; path !== undefined; path = path.before) {
    budget.pay(1 / 4);
    if (path.id === node.id) return true;
  }
  return false;
}

function referenced(
  node: PlainNode,
  document: SchemaDocument,
  skipReference: (node: PlainNode) => void,
): SchemaNode | undefined {
  const reference = node.schema.$ref;
  if (typeof reference !== "string") return undefined;
  const target = document.resolve(reference, `${node.pointer}/$ref`);
  if (target === undefined) skipReference(node);
  return target;
}

function listed(node: PlainNode, keyword: string, document: SchemaDocument): readonly SchemaNode[] {
  const list = node.schema[keyword];
  if (!isList(list)) return [];
  return list.map((schema, i) => document.node(schema, `${node.pointer}/${keyword}/${i}`));
}

/** Returns the choices that a list gives: its nodes, or nothing where it is empty. */
function oneOrNone(list: readonly SchemaNode[]): readonly (SchemaNode | undefined)[] {
  return list.length === 0 ? [undefined] : list;
}
