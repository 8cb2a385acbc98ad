import type { WorkBudget } from "../../work-budget.ts";
import { isListExclusion } from "./fixed-values.ts";
import { presenceKeywords } from "./presence.ts";
import { isList, isObject, type SchemaDocument, type SchemaNode, type SchemaObject, shown } from "./schema-document.ts";
import type { PlainNode } from "./schema-facets.ts";
import { isIntegerExclusion, isTextExclusion, type SchemaNegation } from "./schema-negation.ts";

const MAX_ALTERNATIVES = 256;
/** The work that finding out where a schema leads costs beside what each of the others does. */
const LEADING_WORK = 6;

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
  if (nodes.every(({ schema }) => typeof schema === "boolean" || !leadsOn(schema))) {
    budget.pay(2 * nodes.length);
    return nodes.some(({ schema }) => schema === false) ? [] : [[...new Set(nodes.filter(isPlain))]];
  }
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
  /** What the nodes lead to that were come to, many of them on many ways. */
  const known = new Map<number, Leading>();
  const leading = (node: PlainNode): Leading => {
    const found = known.get(node.id) ?? leadingFrom(node, reading);
    known.set(node.id, found);
    return found;
  };
  const expand = (node: PlainNode, path: Path, others: Todo): void => {
    const { groups, together } = leading(node);
    const before = (option: Option, behind: Todo) =>
      option.reduceRight<Todo>((todo, each) => ({ node: each, from: path, others: todo }), behind);
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

/** The nodes to which a node leads: in each of the groups one option is to be taken, and the others hold as well. */
type Leading = { readonly groups: readonly (readonly Option[])[]; readonly together: readonly SchemaNode[] };

const NOWHERE: Leading = { groups: [], together: [] };

function leadingFrom(node: PlainNode, reading: Reading): Leading {
  if (!leadsOn(node.schema)) return NOWHERE;
  reading.budget.pay(LEADING_WORK);
  return { groups: choicesOf(node, reading), together: togetherOf(node, reading) };
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
  const isAsked = (keyword: string) => node.schema[keyword] !== undefined && !isOfPresence(node, keyword, budget);
  if (isAsked("oneOf")) groups.push(oneOf(node, reading));
  if (isAsked("anyOf")) groups.push(listed(node, "anyOf", reading).map((each) => [each]));
  if (isAsked("if")) groups.push(branches(node, reading));
  for (const keyword of ["dependentSchemas", "dependencies"])
    if (isAsked(keyword)) groups.push(...dependents(node, keyword, reading));
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

/** The keywords that lead from a schema to others that hold for the same value. */
const LEADING = [
  "$ref",
  "$dynamicRef",
  "$recursiveRef",
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "dependentSchemas",
  "dependencies",
];

/** Returns whether a schema has keywords that lead to others, as most have not. */
function leadsOn(schema: SchemaObject): boolean {
  return LEADING.some((keyword) => schema[keyword] !== undefined);
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
