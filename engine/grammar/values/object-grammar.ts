import { type CodeRange, choice, EMPTY, except, type Gbnf, literal, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyMember, anyString, colon, fixedMember, type JsonValue } from "../../gbnf/json-value.ts";
import {
  type AutomatonState,
  automatonOf,
  automatonOfTexts,
  matchesText,
  type ProductPart,
  productOf,
} from "../expressions/automaton.ts";
import { type Expression, ifSupported, includes } from "../expressions/regular-expression.ts";
import { automatonGrammar, ESCAPED_CODES, patternExpression } from "../expressions/string-pattern.ts";
import { namesIn, presenceKeywords } from "../schema/presence.ts";
import {
  alternatives,
  atLeast,
  atMost,
  type Conversion,
  children,
  entryOf,
  type PlainNode,
} from "../schema/schema-alternatives.ts";
import { isList, isObject, type SchemaNode } from "../schema/schema-document.ts";
import { type Member, memberList } from "./member-list.ts";
import { textParts } from "./string-grammar.ts";

const MAX_KEY_STATES = 4_096;
const MAX_PATTERN_WORK = 32_000;

type KeyPattern = { readonly node: PlainNode; readonly pattern: string; readonly automaton: readonly AutomatonState[] };

type Keys = {
  readonly patterns: readonly KeyPattern[];
  readonly names: readonly ProductPart[];
};

function keysOf(conversion: Conversion, nodes: readonly PlainNode[]): Keys {
  const patterns = nodes.flatMap((node) => {
    const { patternProperties } = node.schema;
    const names = isObject(patternProperties) ? Object.keys(patternProperties) : [];
    return names.flatMap((pattern): KeyPattern[] => {
      const automaton = automatonOrNone(conversion, patternExpression(pattern));
      if (automaton === undefined) conversion.skip(node, "patternProperties");
      return automaton === undefined ? [] : [{ node, pattern, automaton }];
    });
  });
  return { patterns, names: nodes.flatMap((node) => namesAsked(conversion, node)) };
}

function automatonOrNone(conversion: Conversion, expression: Expression | undefined) {
  const { budget } = conversion.rules;
  return expression && ifSupported(() => automatonOf(expression, budget.part(MAX_PATTERN_WORK)));
}

/** The schema of a string. A single object, because nodes are identified by their schema. */
const TEXT = { type: "string" };

function namesAsked(conversion: Conversion, node: PlainNode): readonly ProductPart[] {
  const { propertyNames } = node.schema;
  if (propertyNames === undefined || propertyNames === true) return [];
  if (propertyNames === false) return [{ automaton: [], match: "wanted" }];
  const text = conversion.child(node, TEXT, "propertyNames");
  const ways = alternatives([conversion.child(node, propertyNames, "propertyNames"), text], conversion);
  const [only] = ways;
  const parts = ways.length === 1 && only !== undefined ? textParts(conversion, only) : undefined;
  if (parts === undefined) conversion.skip(node, "propertyNames");
  return parts ?? [];
}

function memberNodes(conversion: Conversion, node: PlainNode, name: string, keys: Keys): readonly SchemaNode[] {
  const own = entryOf(conversion, node, "properties", name);
  if (keys.patterns.length === 0)
    return own === undefined ? children(conversion, [node], "additionalProperties") : [own];
  const matched = keys.patterns.filter((each) => each.node === node && matchesText(each.automaton, name));
  const found = [...(own === undefined ? [] : [own]), ...matched.flatMap((each) => patternNodes(conversion, each))];
  return found.length > 0 ? found : children(conversion, [node], "additionalProperties");
}

function patternNodes(conversion: Conversion, { node, pattern }: KeyPattern): readonly SchemaNode[] {
  const found = entryOf(conversion, node, "patternProperties", pattern);
  return found === undefined ? [] : [found];
}

/**
 * A member whose key is none of the names. A key has one spelling, and the patterns that it matches decide its value.
 * `isClosed` forbids keys that no schema mentions.
 */
function otherMember(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  names: readonly string[],
  keys: Keys,
  isClosed: boolean,
): Gbnf | undefined {
  const additional = children(conversion, nodes, "additionalProperties");
  const isSilent = additional.length === 0;
  const isOpen = !additional.some(({ schema }) => schema === false) && !(isSilent && isClosed);
  const { patterns } = keys;
  if (patterns.length === 0 && !isOpen) return undefined;
  const { rules } = conversion;
  if (patterns.length + keys.names.length + names.length === 0)
    return anyMember(rules, anyString(rules), conversion.value(additional));
  if (patterns.length + keys.names.length === 0) {
    // These keys have no escapes, so they cannot equal a name with escaped characters.
    const plain = names.filter((name) => ![...name].some((char) => includes(ESCAPED_CODES, char.codePointAt(0) ?? 0)));
    const key = rules.once(`key other than ${plain.join("\0")}`, () => otherKey(rules, plain));
    return anyMember(rules, sequence(literal('"'), key, literal('"')), conversion.value(additional));
  }
  const parts: ProductPart[] = [
    ...keys.names,
    ...patterns.map(({ automaton }): ProductPart => ({ automaton, match: "reported" })),
  ];
  const states = keyStates(conversion, nodes, names, parts);
  const values = new Map<string, Gbnf>();
  const memberBehind = (matches: readonly boolean[]): Gbnf => {
    const key = matches.join();
    const known = values.get(key);
    if (known !== undefined) return known;
    const value = matches.some(Boolean) || isOpen ? conversion.value(nodesOf(conversion, nodes, keys, matches)) : NEVER;
    const member = value === NEVER ? NEVER : rules.fresh(() => sequence(literal('"'), colon(rules), value));
    values.set(key, member);
    return member;
  };
  return sequence(
    literal('"'),
    automatonGrammar(rules, states, ({ matches }) => memberBehind(matches)),
  );
}

/** Characters of names per rule: the parser reads nested groups by recursion. */
const CHARACTERS_PER_RULE = 16;

type Branch = {
  readonly first: string;
  readonly isName: boolean;
  readonly byFirst: ReadonlyMap<string, readonly string[]>;
  readonly ahead: Iterator<[string, readonly string[]]>;
  readonly along: Gbnf[];
};

function branchOf(first: string, names: readonly string[]): Branch {
  const byFirst = new Map<string, string[]>();
  for (const name of names) {
    const [next] = name;
    if (next === undefined) continue;
    const rests = byFirst.get(next);
    if (rests) rests.push(name.slice(next.length));
    else byFirst.set(next, [name.slice(next.length)]);
  }
  return { first, isName: names.includes(""), byFirst, ahead: byFirst.entries(), along: [] };
}

/** An explicit stack, because names may be longer than the call stack is deep. */
function otherKey(rules: GrammarRules, names: readonly string[]): Gbnf {
  const anyRest = rules.named("plain", () => repeat(except(...ESCAPED_CODES), 0, undefined));
  const open = [branchOf("", names)];
  rules.budget.pay(1 + names.length / 4);
  for (;;) {
    const branch = open.at(-1);
    if (!branch) throw new Error("the last branch returns");
    const next = branch.ahead.next();
    if (!next.done) {
      const [first, rests] = next.value;
      rules.budget.pay(1 + rests.length / 4);
      open.push(branchOf(first, rests));
      continue;
    }
    const taken = [...branch.byFirst.keys()].map(codeRange);
    const rest = branch.isName ? [] : [EMPTY];
    const made = choice(sequence(except(...ESCAPED_CODES, ...taken), anyRest), ...branch.along, ...rest);
    open.pop();
    const depth = open.length;
    const before = open.at(-1);
    if (!before) return made;
    const inside = depth % CHARACTERS_PER_RULE === 0 ? rules.fresh(() => made) : made;
    before.along.push(sequence(literal(branch.first), inside));
  }
}

function codeRange(character: string): CodeRange {
  const code = character.codePointAt(0) ?? 0;
  return [code, code];
}

function keyStates(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  names: readonly string[],
  parts: readonly ProductPart[],
) {
  const { budget } = conversion.rules;
  const states = ifSupported(() => {
    const taken: readonly ProductPart[] =
      names.length === 0 ? [] : [{ automaton: automatonOfTexts(names, budget), match: "unwanted" }];
    return productOf([...parts, ...taken], MAX_KEY_STATES, budget);
  });
  const [first] = nodes;
  if (states === undefined && first !== undefined)
    conversion.tooCostly(first, "properties", "has keys that are too much alike");
  return states ?? [];
}

function nodesOf(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  { patterns }: Keys,
  matches: readonly boolean[],
): readonly SchemaNode[] {
  return nodes.flatMap((node) => {
    const matched = patterns.filter((each, at) => each.node === node && matches[at] === true);
    if (matched.length === 0) return children(conversion, [node], "additionalProperties");
    return matched.flatMap((each) => patternNodes(conversion, each));
  });
}

const LISTS = ["allOf", "anyOf", "oneOf"];
const SINGLE = ["if", "then", "else"];

/** Whether a schema evaluates a member, for `unevaluatedProperties: false`; undefined without it or if not enforced. */
function evaluatedBy(
  conversion: Conversion,
  nodes: readonly PlainNode[],
): ((name: string, keys: Keys) => boolean) | undefined {
  const asking = nodes.filter(({ schema: { unevaluatedProperties: asked } }) => asked !== undefined && asked !== true);
  if (asking.length === 0) return undefined;
  const sources = nodes.filter(({ schema }) => !conversion.negation?.isMade(schema));
  const isOpen = sources.some(({ schema }) => schema.additionalProperties !== undefined);
  let isKept = true;
  for (const node of asking) {
    const below = reachedFrom(conversion, node);
    if (node.schema.unevaluatedProperties === false && sources.every(({ id }) => below.has(id))) continue;
    conversion.skip(node, "unevaluatedProperties");
    isKept = false;
  }
  if (!isKept || isOpen) return undefined;
  return (name, keys) => sources.some((node) => memberNodes(conversion, node, name, keys).length > 0);
}

function reachedFrom(conversion: Conversion, from: SchemaNode): ReadonlySet<number> {
  const { document } = conversion;
  const found = new Set<number>();
  const open = [from];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    conversion.rules.budget.pay(1);
    if (found.has(node.id)) continue;
    found.add(node.id);
    const { schema, pointer } = node;
    if (typeof schema === "boolean") continue;
    const target = document.resolve(node);
    if (target !== undefined) open.push(target);
    for (const keyword of LISTS) {
      const list = schema[keyword];
      if (isList(list))
        for (const [at, inner] of list.entries()) open.push(document.node(inner, `${pointer}/${keyword}/${at}`));
    }
    for (const keyword of SINGLE) {
      const inner = schema[keyword];
      if (inner !== undefined) open.push(document.node(inner, `${pointer}/${keyword}`));
    }
    for (const keyword of ["dependentSchemas", "dependencies"]) {
      const map = schema[keyword];
      if (!isObject(map)) continue;
      for (const inner of Object.values(map))
        if (!isList(inner)) open.push(document.node(inner, `${pointer}/${keyword}/*`));
    }
  }
  return found;
}

/** Each optional property is an open alternative that the sampler follows for every token. */
export const MAX_OPTIONAL = 512;

/** Declared properties in order, then others where keywords or `conversion.undeclared` allow them. */
export function objectGrammar(conversion: Conversion, nodes: readonly PlainNode[], isFree: boolean): Gbnf {
  const { rules } = conversion;
  for (const { schema } of nodes)
    rules.budget.pay(requiredOf(schema.required).length + namesOf(schema.properties).length);
  const required = new Set(nodes.flatMap(({ schema }) => requiredOf(schema.required)));
  const presence = nodes.flatMap(({ schema }) => presenceKeywords(schema, rules.budget).map((each) => each.presence));
  const declared = new Set(nodes.flatMap(({ schema }) => namesOf(schema.properties)));
  const asked = presence.flatMap((each) => [...namesIn(each)]);
  const names = [...new Set([...declared, ...required, ...asked])];
  const keys = keysOf(conversion, nodes);
  const isClosed = conversion.undeclared === "declared" && nodes.some((node) => declaresSome(conversion, node));
  const closing = evaluatedBy(conversion, nodes);
  const allowed = (name: string) =>
    keys.names.every(({ automaton, match }) => matchesText(automaton, name) === (match === "wanted")) &&
    (required.has(name) ||
      declared.has(name) ||
      !isClosed ||
      nodes.some((node) => memberNodes(conversion, node, name, keys).length > 0));
  const [first] = nodes;
  let optional = 0;
  const members = names.map((name): Member => {
    rules.budget.pay(nodes.length);
    const isRequired = required.has(name);
    const isOut = !allowed(name) || (closing !== undefined && !closing(name, keys));
    const value = isOut ? NEVER : conversion.value(nodes.flatMap((node) => memberNodes(conversion, node, name, keys)));
    if (!isRequired && value !== NEVER) optional += 1;
    if (first !== undefined && optional > MAX_OPTIONAL)
      conversion.tooCostly(first, "properties", `has more than ${MAX_OPTIONAL} optional properties`);
    return { name, text: value === NEVER ? NEVER : rules.fresh(() => fixedMember(rules, name, value)), isRequired };
  });
  const other = otherMember(conversion, nodes, names, keys, isClosed || closing !== undefined);
  const min = atLeast(nodes, "minProperties");
  const max = atMost(nodes, "maxProperties");
  const most = Math.min(
    max ?? Number.POSITIVE_INFINITY,
    other === undefined ? members.length : Number.POSITIVE_INFINITY,
  );
  if (min > most || required.size > most) return NEVER;
  return sequence(literal("{"), memberList(rules, members, other, { presence, min, max, isFree }), literal("}"));
}

/** Returns whether the schema itself, and not a negation, declares properties. */
function declaresSome({ negation }: Conversion, { schema }: PlainNode): boolean {
  return !negation?.isMade(schema) && namesOf(schema.properties).length > 0;
}

function namesOf(map: JsonValue | undefined): readonly string[] {
  return isObject(map) ? Object.keys(map) : [];
}

function requiredOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((name): name is string => typeof name === "string") : [];
}
