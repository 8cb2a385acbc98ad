import { type CodeRange, chars, choice, EMPTY, type Gbnf, literal, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyString } from "../../gbnf/json-value.ts";
import { includes, subtract } from "../expressions/code-set.ts";
import { type Conversion, children, type PlainNode } from "../schema/schema-facets.ts";

/** The characters of a key that needs no escape. */
const PLAIN: readonly CodeRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
];

/**
 * Matches the key of a member that the schema does not declare: any string but the declared names, under
 * `propertyNames` where no name is declared. A key beside declared ones has no escapes, so that no name can be written
 * in another way.
 */
export function memberKey(conversion: Conversion, nodes: readonly PlainNode[], names: readonly string[]): Gbnf {
  const { rules } = conversion;
  const limited = nodes.filter(({ schema }) => !isAnyName(schema.propertyNames));
  if (names.length > 0) {
    for (const node of limited) conversion.skip(node, "propertyNames");
    const plain = names.filter((name) => [...name].every((char) => includes(PLAIN, char.codePointAt(0) ?? 0)));
    return rules.fresh(() => sequence(literal('"'), otherThan(rules, plain), literal('"')));
  }
  if (limited.length === 0) return anyString(rules);
  const [first] = limited;
  const text = first === undefined ? [] : [conversion.child(first, TEXT, "propertyNames")];
  return conversion.value([...children(conversion, limited, "propertyNames"), ...text]);
}

/** The schema of a text, one object for all: a node is known by its schema. */
const TEXT = { type: "string" };

/** Returns whether a `propertyNames` says nothing, as generators of schemas like to write it. */
function isAnyName(schema: unknown): boolean {
  if (schema === undefined || schema === true) return true;
  if (typeof schema !== "object" || schema === null) return false;
  const keywords = Object.entries(schema).filter(([keyword]) => keyword !== "description" && keyword !== "title");
  return keywords.every(([keyword, value]) => keyword === "type" && value === "string");
}

/**
 * The number of characters in which a name has to agree with a declared one to be taken for it: the rules grow with
 * this.
 */
const MAX_COMPARED = 64;

/** Matches every plain text but the given ones, one character at a time. */
function otherThan(rules: GrammarRules, texts: readonly string[], depth = 0): Gbnf {
  if (depth === MAX_COMPARED) return NEVER;
  const anyRest = rules.named("plain", () => repeat(chars(...PLAIN), 0, undefined));
  rules.budget.pay(texts.length);
  const byFirst = new Map<string, string[]>();
  for (const text of texts) {
    const [first] = text;
    if (first === undefined) continue;
    const rests = byFirst.get(first);
    if (rests) rests.push(text.slice(first.length));
    else byFirst.set(first, [text.slice(first.length)]);
  }
  const taken = [...byFirst.keys()].map((first): CodeRange => [first.codePointAt(0) ?? 0, first.codePointAt(0) ?? 0]);
  const elsewhere = sequence(chars(...subtract(PLAIN, taken)), anyRest);
  const along = [...byFirst].map(([first, rests]) =>
    sequence(
      literal(first),
      rules.fresh(() => otherThan(rules, rests, depth + 1)),
    ),
  );
  return choice(elsewhere, ...along, ...(texts.includes("") ? [] : [EMPTY]));
}
