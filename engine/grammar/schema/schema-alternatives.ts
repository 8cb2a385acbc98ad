import { isList, type SchemaDocument, type SchemaNode } from "./schema-document.ts";
import type { PlainNode } from "./schema-facets.ts";

/**
 * The ways to satisfy a schema, in each of which all nodes hold at once by their own keywords, and the work that
 * finding them took.
 */
export type Alternatives = { readonly alternatives: readonly (readonly PlainNode[])[]; readonly work: number };

const MAX_ALTERNATIVES = 256;
const MAX_STEPS = 10_000;

/** A node that is to be satisfied, with the nodes that led to it. */
type Wanted = { readonly node: SchemaNode; readonly from: Wanted | undefined };

/**
 * Resolves `$ref`, `allOf`, `anyOf` and `oneOf` (read as `anyOf`). A schema that refers to itself without anything
 * between adds no way of its own. `skipReference` is told of references to other documents.
 *
 * Throws `EngineError` INVALID_SCHEMA where there are too many ways.
 */
export function alternatives(
  nodes: readonly SchemaNode[],
  document: SchemaDocument,
  skipReference: (node: PlainNode) => void,
): Alternatives {
  const results: (readonly PlainNode[])[] = [];
  let work = 0;
  const expand = (todo: readonly Wanted[], done: ReadonlyMap<number, PlainNode>): void => {
    work += 1;
    if (work > MAX_STEPS) document.fail("", "has too many alternatives");
    const [next, ...rest] = todo;
    if (next === undefined) {
      if (results.length >= MAX_ALTERNATIVES) document.fail("", "has too many alternatives");
      results.push([...done.values()]);
      return;
    }
    const { node } = next;
    if (node.schema === false || leadsToItself(next)) return;
    if (!isPlain(node) || done.has(node.id)) {
      expand(rest, done);
      return;
    }
    const target = referenced(node, document, skipReference);
    const together = [...(target === undefined ? [] : [target]), ...listed(node, "allOf", document)];
    const following = [...together.map((each): Wanted => ({ node: each, from: next })), ...rest];
    const doneHere = new Map(done).set(node.id, node);
    for (const choices of product([listed(node, "anyOf", document), listed(node, "oneOf", document)])) {
      expand([...choices.map((each): Wanted => ({ node: each, from: next })), ...following], doneHere);
    }
  };
  const start = nodes.map((node): Wanted => ({ node, from: undefined }));
  expand(start, new Map());
  return { alternatives: results, work };
}

function isPlain(node: SchemaNode): node is PlainNode {
  return typeof node.schema === "object";
}

function leadsToItself({ node, from }: Wanted): boolean {
  for (let before = from; before !== undefined; before = before.from) if (before.node.id === node.id) return true;
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

/** Yields one of each list that is not empty, in every combination. */
function* product(lists: readonly (readonly SchemaNode[])[]): Generator<readonly SchemaNode[]> {
  const [first, ...rest] = lists;
  if (first === undefined) {
    yield [];
    return;
  }
  for (const others of product(rest)) {
    if (first.length === 0) yield others;
    else for (const node of first) yield [node, ...others];
  }
}
