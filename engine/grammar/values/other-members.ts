import { type CodeRange, choice, EMPTY, except, type Gbnf, literal, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyMember, anyString, colon } from "../../gbnf/json-value.ts";
import { type AutomatonState, automatonOf } from "../expressions/automaton.ts";
import { automatonOfTexts, matchesText, type ProductPart, productOf } from "../expressions/automaton-product.ts";
import { includes } from "../expressions/code-set.ts";
import { type Expression, UnsupportedPattern } from "../expressions/regular-expression.ts";
import { automatonGrammar, patternExpression } from "../expressions/string-pattern.ts";
import { alternatives } from "../schema/schema-alternatives.ts";
import { isObject, type SchemaNode } from "../schema/schema-document.ts";
import { type Conversion, children, entryOf, type PlainNode } from "../schema/schema-facets.ts";
import { textParts } from "./string-grammar.ts";

const MAX_KEY_STATES = 4_096;
const MAX_PATTERN_WORK = 32_000;

type KeyPattern = { readonly node: PlainNode; readonly pattern: string; readonly automaton: readonly AutomatonState[] };

export type Keys = {
  readonly patterns: readonly KeyPattern[];
  readonly names: readonly ProductPart[];
};

export function keysOf(conversion: Conversion, nodes: readonly PlainNode[]): Keys {
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
  if (expression === undefined) return undefined;
  const { budget } = conversion.rules;
  try {
    return automatonOf(expression, budget.part(MAX_PATTERN_WORK));
  } catch (error) {
    if (error instanceof UnsupportedPattern) return undefined;
    throw error;
  }
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

export function mayHaveName({ names }: Keys, name: string): boolean {
  return names.every(({ automaton, match }) => matchesText(automaton, name) === (match === "wanted"));
}

export function memberNodes(conversion: Conversion, node: PlainNode, name: string, keys: Keys): readonly SchemaNode[] {
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
export function otherMember(
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
    const plain = names.filter((name) => ![...name].some((char) => includes(ESCAPED, char.codePointAt(0) ?? 0)));
    const key = rules.once(`key other than ${plain.join("\0")}`, () => otherKey(rules, plain));
    return anyMember(rules, sequence(literal('"'), key, literal('"')), conversion.value(additional));
  }
  const parts: ProductPart[] = [
    ...keys.names,
    ...patterns.map(({ automaton }): ProductPart => ({ automaton, match: "told" })),
  ];
  const states = keyStates(conversion, nodes, names, parts);
  const values = new Map<string, Gbnf>();
  const memberBehind = (told: readonly boolean[]): Gbnf => {
    const key = told.join();
    const known = values.get(key);
    if (known !== undefined) return known;
    const value = told.some(Boolean) || isOpen ? conversion.value(nodesOf(conversion, nodes, keys, told)) : NEVER;
    const member = value === NEVER ? NEVER : rules.fresh(() => sequence(literal('"'), colon(rules), value));
    values.set(key, member);
    return member;
  };
  return sequence(
    literal('"'),
    automatonGrammar(rules, states, ({ told }) => memberBehind(told)),
  );
}

const ESCAPED: readonly CodeRange[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];
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
  const anyRest = rules.named("plain", () => repeat(except(...ESCAPED), 0, undefined));
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
    const made = choice(sequence(except(...ESCAPED, ...taken), anyRest), ...branch.along, ...rest);
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
  const [first] = nodes;
  try {
    const taken: readonly ProductPart[] =
      names.length === 0 ? [] : [{ automaton: automatonOfTexts(names, budget), match: "unwanted" }];
    return productOf([...parts, ...taken], MAX_KEY_STATES, budget);
  } catch (error) {
    if (!(error instanceof UnsupportedPattern) || first === undefined) throw error;
    return conversion.tooCostly(first, "properties", "has keys that are too much alike");
  }
}

function nodesOf(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  { patterns }: Keys,
  told: readonly boolean[],
): readonly SchemaNode[] {
  return nodes.flatMap((node) => {
    const matched = patterns.filter((each, at) => each.node === node && told[at] === true);
    if (matched.length === 0) return children(conversion, [node], "additionalProperties");
    return matched.flatMap((each) => patternNodes(conversion, each));
  });
}
