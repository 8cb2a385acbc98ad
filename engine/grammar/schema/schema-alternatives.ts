import type { WorkBudget } from "../../work-budget.ts";
import { isListExclusion } from "./fixed-values.ts";
import { presenceKeywords } from "./presence.ts";
import { isList, isObject, type SchemaDocument, type SchemaNode, shown } from "./schema-document.ts";
import type { PlainNode } from "./schema-facets.ts";
import { isIntegerExclusion, isTextExclusion, type SchemaNegation } from "./schema-negation.ts";

const MAX_ALTERNATIVES = 256;

/** Nodes that are to be satisfied: one, with the nodes that led to it, and then others; undefined is none. */
type Todo =
  | { readonly node: SchemaNode; readonly from: Path | undefined; readonly others: Todo | undefined }
  | undefined;
/** The nodes that led to one, the newest first. */
type Path = { readonly id: number; readonly before: Path | undefined };

/** The parts of a conversion that the ways to satisfy its nodes depend on. */
export type Reading = {
  /** The document that holds the nodes. */
  readonly document: SchemaDocument;
  /** Turns schemas round; undefined where nothing is turned round, and `not` and the like are noted. */
  readonly negation: SchemaNegation | undefined;
  /** The work that may be spent. */
  readonly budget: WorkBudget;
  /** Notes that a keyword of a node is not kept. */
  skip(node: PlainNode, keyword: string): void;
  /** Returns for each alternative of a node's `oneOf` the others that a value of it could satisfy too. */
  overlaps(node: PlainNode): readonly (readonly number[])[];
};

/** The nodes of a way to satisfy a keyword: all of them hold. */
type Option = readonly SchemaNode[];

/**
 * Returns the ways to satisfy nodes, in each of which all plain nodes hold at once by their own keywords. Resolves
 * references, `allOf`, `anyOf`, `oneOf`, `not`, `if` and what depends on members, all but what asks for the presence of
 * members only. A schema that refers to itself without anything between adds no way of its own.
 *
 * Throws `EngineError` INVALID_SCHEMA where there are too many ways, and `WorkSpent`.
 */
export function alternatives(nodes: readonly SchemaNode[], reading: Reading): readonly (readonly PlainNode[])[] {
  const { budget, document } = reading;
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
      if (results.length >= MAX_ALTERNATIVES) document.tooCostly(nodes[0]?.pointer ?? "", "has too many alternatives");
      budget.pay(holds.size);
      results.push([...holds.values()]);
    } else if (isPlain(todo.node)) expand(todo.node, { id: todo.node.id, before: todo.from }, todo.others);
  };
  const expand = (node: PlainNode, path: Path, others: Todo): void => {
    const before = (option: Option, behind: Todo) =>
      option.reduceRight<Todo>((todo, each) => ({ node: each, from: path, others: todo }), behind);
    const groups = choicesOf(node, reading);
    const together = togetherOf(node, reading);
    holds.set(node.id, node);
    const choose = (at: number, behind: Todo): void => {
      const group = groups[at];
      if (group === undefined) follow(before(together, behind));
      for (const option of group ?? []) choose(at + 1, before(option, behind));
    };
    choose(0, others);
    holds.delete(node.id);
  };
  follow(nodes.reduceRight<Todo>((others, node) => ({ node, from: undefined, others }), undefined));
  return results;
}

/** Returns the nodes that hold wherever a node does. */
function togetherOf(node: PlainNode, reading: Reading): readonly SchemaNode[] {
  const { document, negation, budget } = reading;
  const found: SchemaNode[] = [];
  const target = document.resolve(node);
  if (target !== undefined) found.push(target);
  for (const keyword of REFERENCES)
    if (node.schema[keyword] !== undefined && (target === undefined || keyword !== referenceOf(node)))
      reading.skip(node, keyword);
  found.push(...listed(node, "allOf", reading));
  const { not } = node.schema;
  if (not === undefined || isOfPresence(node, "not", budget)) return found;
  const { schema } = node;
  if (isTextExclusion(schema) || isIntegerExclusion(schema) || isListExclusion(schema)) return found;
  const turned = negation?.of(not);
  if (turned === undefined) reading.skip(node, "not");
  else found.push(document.node(turned, `${node.pointer}/not`));
  return found;
}

const REFERENCES = ["$ref", "$dynamicRef", "$recursiveRef"];

/** Returns the keyword by which a node refers to another, of several the first. */
function referenceOf({ schema }: PlainNode): string | undefined {
  return REFERENCES.find((keyword) => schema[keyword] !== undefined);
}

/** Returns the choices that a node gives, in each of which one of several ways is to be taken. */
function choicesOf(node: PlainNode, reading: Reading): readonly (readonly Option[])[] {
  const { budget } = reading;
  const groups: (readonly Option[])[] = [];
  if (!isOfPresence(node, "oneOf", budget)) groups.push(oneOf(node, reading));
  if (!isOfPresence(node, "anyOf", budget)) groups.push(listed(node, "anyOf", reading).map((each) => [each]));
  if (node.schema.if !== undefined && !isOfPresence(node, "if", budget)) groups.push(branches(node, reading));
  for (const keyword of ["dependentSchemas", "dependencies"])
    if (!isOfPresence(node, keyword, budget)) groups.push(...dependents(node, keyword, reading));
  return groups.filter((group) => group.length > 0);
}

function isOfPresence({ schema }: PlainNode, keyword: string, budget: WorkBudget): boolean {
  return presenceKeywords(schema, budget).some((each) => each.keyword === keyword);
}

/** Returns the alternatives of a `oneOf`, each without the values of those with which it overlaps. */
function oneOf(node: PlainNode, reading: Reading): readonly Option[] {
  const { document, negation, budget } = reading;
  const options = listed(node, "oneOf", reading);
  if (options.length < 2) return options.map((each) => [each]);
  const overlaps = reading.overlaps(node);
  if (overlaps.every((others) => others.length === 0)) return options.map((each) => [each]);
  budget.pay(overlaps.reduce((sum, others) => sum + others.length, 0));
  const turned = options.map((option, at) =>
    overlaps.some((others) => others.includes(at)) ? negation?.of(option.schema) : true,
  );
  if (turned.includes(undefined)) {
    reading.skip(node, "oneOf");
    return options.map((each) => [each]);
  }
  return options.map((option, at) => [
    option,
    ...(overlaps[at] ?? []).map((other) => document.node(turned[other] ?? true, `${node.pointer}/oneOf/${other}`)),
  ]);
}

function branches(node: PlainNode, reading: Reading): readonly Option[] {
  const { document, negation } = reading;
  const turned = negation?.of(node.schema.if ?? true);
  if (turned === undefined) {
    reading.skip(node, "if");
    return [];
  }
  const inside = (keyword: string) => document.node(node.schema[keyword] ?? true, `${node.pointer}/${keyword}`);
  return [
    [inside("if"), inside("then")],
    [document.node(turned, `${node.pointer}/if`), inside("else")],
  ];
}

/** Returns for each member on which something depends the two ways: it is not there, or what depends on it holds. */
function dependents(node: PlainNode, keyword: string, reading: Reading): readonly (readonly Option[])[] {
  const { document, negation } = reading;
  const map = node.schema[keyword];
  if (!isObject(map)) return [];
  if (negation === undefined) {
    reading.skip(node, keyword);
    return [];
  }
  return Object.entries(map).map(([name, inner]) => {
    const pointer = `${node.pointer}/${keyword}/${shown(name)}`;
    const isThere = negation.dependent(map, name);
    const behind = isList(inner) ? isThere.with(inner) : inner;
    return [
      [document.node(isThere.not, pointer)],
      [document.node(isThere.is, pointer), document.node(behind, pointer)],
    ];
  });
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

/** Returns the schemas that a keyword of a node lists, for each of which it pays. */
function listed(
  node: PlainNode,
  keyword: "allOf" | "anyOf" | "oneOf",
  { document, budget }: Reading,
): readonly SchemaNode[] {
  const list = node.schema[keyword];
  if (!isList(list)) return [];
  // Of alternatives none can be left out; parts that all hold may be one way.
  if (keyword !== "allOf" && list.length > MAX_ALTERNATIVES)
    document.tooCostly(`${node.pointer}/${keyword}`, `has more than ${MAX_ALTERNATIVES} alternatives`);
  budget.pay(list.length);
  return list.map((schema, i) => document.node(schema, `${node.pointer}/${keyword}/${i}`));
}
