import type { Gbnf } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { presenceKeywords } from "./presence.ts";
import {
  isList,
  isObject,
  isOfType,
  type SchemaDocument,
  type SchemaNode,
  type SchemaObject,
  shown,
} from "./schema-document.ts";
import { keyword, type SchemaType, TYPES } from "./schema-keywords.ts";
import { isIntegerExclusion, isTextExclusion, type SchemaNegation } from "./schema-negation.ts";

/** Values by their canonical text: `{"a":1,"b":2}` and `{"b":2,"a":1}` are one value. */
type Listed = ReadonlyMap<string, JsonValue>;

const KNOWN = new WeakMap<SchemaObject, Listed | undefined>();

export type Listing = Pick<Conversion, "budget" | "isAllowed">;

/** The `enum` and `const` values that satisfy all nodes; undefined if no node lists any. Throws `WorkSpent`. */
export function fixedValues(
  conversion: Listing,
  nodes: readonly PlainNode[],
  types: ReadonlySet<SchemaType> | undefined,
): readonly JsonValue[] | undefined {
  const { budget } = conversion;
  let allowed: Listed | undefined;
  for (const { schema } of nodes) {
    const listed = listedValues(schema, budget);
    if (listed !== undefined) allowed = allowed === undefined ? listed : common(allowed, listed, budget);
  }
  if (allowed === undefined) return undefined;
  budget.pay(allowed.size);
  const asking = nodes.filter(({ schema }) =>
    Object.keys(schema).some((name) => !OF_LISTED.has(name) && keyword(name) !== undefined),
  );
  const names = types && [...types];
  return [...allowed.values()].filter(
    (value) => (!names || isOfType(names, value)) && asking.every((node) => conversion.isAllowed(value, node)),
  );
}

/** The keywords that the lists of values themselves or `types` apply already. */
const OF_LISTED: ReadonlySet<string> = new Set(["enum", "const", "type"]);

/** Whether the `not` of a schema excludes only values that the schema lists, which `listedValues` applies. */
function isListExclusion(schema: SchemaObject): boolean {
  const { not } = schema;
  if (!listsValues(schema) || !isObject(not) || !listsValues(not)) return false;
  return Object.keys(not).every((name) => name === "enum" || name === "const");
}

function listsValues(schema: SchemaObject): boolean {
  return isList(schema.enum) || Object.hasOwn(schema, "const");
}

/** Returns the values that a schema lists, in `enum`, in `const`, or in both; undefined if it lists none. */
export function listedValues(schema: SchemaObject, budget: WorkBudget): Listed | undefined {
  if (!listsValues(schema)) return undefined;
  if (KNOWN.has(schema)) return KNOWN.get(schema);
  let listed: Listed | undefined;
  for (const list of [schema.enum, Object.hasOwn(schema, "const") ? [schema.const ?? null] : undefined]) {
    if (!isList(list)) continue;
    budget.pay(list.length);
    const values = new Map<string, JsonValue>();
    for (const value of list) {
      const text = canonical(value);
      budget.payForText(text.length);
      values.set(text, value);
    }
    listed = listed === undefined ? values : common(listed, values, budget);
  }
  if (listed !== undefined && isListExclusion(schema) && isObject(schema.not)) {
    const excluded = listedValues(schema.not, budget) ?? new Map();
    budget.pay(listed.size);
    listed = new Map([...listed].filter(([text]) => !excluded.has(text)));
  }
  KNOWN.set(schema, listed);
  return listed;
}

function common(some: Listed, others: Listed, budget: WorkBudget): Listed {
  budget.pay(some.size);
  return new Map([...some].filter(([text]) => others.has(text)));
}

function canonical(value: JsonValue): string {
  if (isList(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`).join()}}`;
}

/** The most ways to satisfy nodes: each needs a grammar of its own. */
const MAX_ALTERNATIVES = 256;
/** The steps of work to find where a schema leads. */
const LEADING_WORK = 6;

/** The nodes that are still to be satisfied, a linked list: alternatives share its end. */
type Todo =
  | { readonly node: SchemaNode; readonly from: Path | undefined; readonly others: Todo | undefined }
  | undefined;
/** The nodes that led to one, by their ids: a schema that leads to itself ends there. */
type Path = { readonly id: number; readonly before: Path | undefined };

type Reading = {
  readonly document: SchemaDocument;
  /** Negates schemas; undefined if `not` and the like are not enforced but recorded as skipped. */
  readonly negation: SchemaNegation | undefined;
  readonly budget: WorkBudget;
  skip(node: PlainNode, keyword: string): void;
  /** Returns, for each alternative of a node's `oneOf`, the others that one of its values could satisfy too. */
  overlaps(node: PlainNode): readonly (readonly number[])[];
};

/** The nodes of one way to satisfy a keyword: all of them apply. */
type Option = readonly SchemaNode[];

/**
 * Returns the ways to satisfy nodes: in each, the own keywords of all plain nodes apply. Resolves references,
 * combinations and conditions. Throws `EngineError` INVALID_SCHEMA for too many, and `WorkSpent`.
 *
 * It is the disjunctive normal form of the schemas: a group (`anyOf`, `oneOf`, `if`, each dependency) offers options, and
 * each way takes one option of every group that it meets.
 *
 *     { anyOf: [A, B], oneOf: [C, D] }       A + C, A + D, B + C, B + D, each with the schema itself
 *     { if: A, then: B, else: C }            A + B, (not A) + C
 *     { dependentSchemas: { a: A } }         (without a), (with a) + A
 *     oneOf where C and D overlap            C + (not D), D + (not C)
 *
 * `follow` takes the next node of a list, `expand` puts the targets of that node in front of the list, once for each
 * choice of options, and `holds` has the nodes of the way so far: a node that is in it needs no second visit, and one
 * that leads to itself without a value between (`{ $ref: "#" }`) can never be satisfied.
 */
export function alternatives(nodes: readonly SchemaNode[], reading: Reading): readonly (readonly PlainNode[])[] {
  const { budget, document } = reading;
  if (nodes.every(({ schema }) => typeof schema === "boolean" || !leadsOn(schema))) {
    budget.pay(2 * nodes.length);
    return nodes.some(({ schema }) => schema === false) ? [] : [[...new Set(nodes.filter(isPlain))]];
  }
  const results: (readonly PlainNode[])[] = [];
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

/** The targets of a node: one option of each group, and all of `together`. */
type Leading = { readonly groups: readonly (readonly Option[])[]; readonly together: readonly SchemaNode[] };

const NOWHERE: Leading = { groups: [], together: [] };

function leadingFrom(node: PlainNode, reading: Reading): Leading {
  if (!leadsOn(node.schema)) return NOWHERE;
  reading.budget.pay(LEADING_WORK);
  return { groups: choicesOf(node, reading), together: togetherOf(node, reading) };
}

/** Returns the nodes that apply whatever is chosen: references, all of an `allOf`, and the opposite of a `not`. */
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

function referenceOf({ schema }: PlainNode): string | undefined {
  return REFERENCES.find((keyword) => schema[keyword] !== undefined);
}

/** Returns the groups of options. An `anyOf` on members alone is none: the order of members enforces it. */
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

/**
 * Returns the options of a `oneOf`, each without the values of overlapping options. Negation multiplies alternatives, so
 * options that are surely apart, as by a `const` of one member, stay as they are.
 */
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

/** Returns two options per dependency: the member is absent, or the dependent schema applies. */
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

/** Returns whether a schema has a keyword that leads to other schemas for the same value. */
function leadsOn(schema: SchemaObject): boolean {
  return LEADING.some((keyword) => schema[keyword] !== undefined);
}

function isPlain(node: SchemaNode): node is PlainNode {
  return typeof node.schema === "object";
}

/** A path is short, and a set for each would have to be copied with every choice. */
function leadsToItself({ node, from }: NonNullable<Todo>, budget: WorkBudget): boolean {
  for (let path = from; path !== undefined; path = path.before) {
    budget.pay(1 / 4);
    if (path.id === node.id) return true;
  }
  return false;
}

function listed(
  node: PlainNode,
  keyword: "allOf" | "anyOf" | "oneOf",
  { document, budget }: Reading,
): readonly SchemaNode[] {
  const list = node.schema[keyword];
  if (!isList(list)) return [];
  // Every alternative needs a grammar; the parts of an `allOf` may form a single one.
  if (keyword !== "allOf" && list.length > MAX_ALTERNATIVES)
    document.tooCostly(`${node.pointer}/${keyword}`, `has more than ${MAX_ALTERNATIVES} alternatives`);
  budget.pay(list.length);
  return list.map((schema, i) => document.node(schema, `${node.pointer}/${keyword}/${i}`));
}

/** A node whose own keywords apply, together with those of the other nodes in a list. */
export type PlainNode = SchemaNode & { readonly schema: SchemaObject };

/** Undeclared members where a schema declares some and is silent about others: none, or any, as in JSON Schema. */
export type UndeclaredMembers = "declared" | "any";

export type Conversion = Reading & {
  readonly rules: GrammarRules;
  readonly undeclared: UndeclaredMembers;
  child(parent: PlainNode, schema: JsonValue, ...path: string[]): SchemaNode;
  isAllowed(value: JsonValue, node: PlainNode): boolean;
  value(nodes: readonly SchemaNode[]): Gbnf;
  tooCostly(node: PlainNode, keyword: string, what: string): never;
};

/** Undefined for any. A schema without `type` but with keywords of some types allows only these. */
export function allowedTypes(nodes: readonly PlainNode[], budget: WorkBudget): ReadonlySet<SchemaType> | undefined {
  let allowed: ReadonlySet<SchemaType> | undefined;
  for (const { schema } of nodes) {
    const types = namedTypes(schema, budget);
    if (types !== undefined) allowed = allowed === undefined ? types : commonTypes(allowed, types);
  }
  if (allowed !== undefined || nodes.some(({ schema }) => listsValues(schema))) return allowed;
  const implied = nodes.flatMap(({ schema }) => {
    const names = Object.keys(schema);
    budget.pay(names.length / 2);
    return names.flatMap((name) => keyword(name)?.type ?? []);
  });
  return implied.length === 0 ? undefined : new Set(implied);
}

const SINGLE: ReadonlyMap<JsonValue, ReadonlySet<SchemaType>> = new Map(TYPES.map((type) => [type, new Set([type])]));

function namedTypes(schema: SchemaObject, budget: WorkBudget): ReadonlySet<SchemaType> | undefined {
  const { type } = schema;
  budget.pay(isList(type) ? 1 + type.length / 4 : 1);
  if (type === undefined) return undefined;
  const isNullable = schema.nullable === true;
  if (!isList(type) && !isNullable) return SINGLE.get(type);
  const names = isList(type) ? type : [type];
  const types = TYPES.filter((each) => names.includes(each));
  if (types.length === 0) return undefined;
  return new Set(isNullable ? [...types, "null"] : types);
}

/** Returns the types in both sets; every integer is a number. */
function commonTypes(a: ReadonlySet<SchemaType>, b: ReadonlySet<SchemaType>): ReadonlySet<SchemaType> {
  const has = (types: ReadonlySet<SchemaType>, type: SchemaType) =>
    types.has(type) || (type === "integer" && types.has("number"));
  return new Set(TYPES.filter((type) => has(a, type) && has(b, type)));
}

export function atLeast(nodes: readonly PlainNode[], keyword: string): number {
  let strictest = 0;
  for (const { schema } of nodes) {
    const bound = schema[keyword];
    if (typeof bound === "number" && bound > strictest) strictest = bound;
  }
  return strictest;
}

export function atMost(nodes: readonly PlainNode[], keyword: string): number | undefined {
  let strictest: number | undefined;
  for (const { schema } of nodes) {
    const bound = schema[keyword];
    if (typeof bound === "number" && (strictest === undefined || bound < strictest)) strictest = bound;
  }
  return strictest;
}

export function children(conversion: Conversion, nodes: readonly PlainNode[], keyword: string): readonly SchemaNode[] {
  const found: SchemaNode[] = [];
  for (const node of nodes) {
    const schema = node.schema[keyword];
    if (schema !== undefined) found.push(conversion.child(node, schema, keyword));
  }
  return found;
}

export function entryOf(conversion: Conversion, node: PlainNode, keyword: string, key: string): SchemaNode | undefined {
  const map = node.schema[keyword];
  const schema = isObject(map) && Object.hasOwn(map, key) ? map[key] : undefined;
  return schema === undefined ? undefined : conversion.child(node, schema, keyword, shown(key));
}
