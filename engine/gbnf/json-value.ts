import { chars, charsOf, choice, EMPTY, type Gbnf, literal, optional, repeat, sequence } from "./gbnf.ts";
import type { GrammarRules } from "./grammar-rules.ts";

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** At most one space after `,` and `:`, none elsewhere: a grammar must not allow an endless run of spaces. */
const SPACE = optional(literal(" "));
const COMMA = sequence(literal(","), SPACE);
const COLON = sequence(literal(":"), SPACE);
const DIGIT = charsOf("09");

/** The maximum digits of an integer without bounds: those of a signed 64-bit integer. */
export const MAX_DIGITS = 19;
/** The maximum digits after the point: the shortest text of a double near 0.01 needs that many. */
export const MAX_FRACTION_DIGITS = 20;

export function comma(rules: GrammarRules): Gbnf {
  return rules.named("comma", () => COMMA);
}

export function colon(rules: GrammarRules): Gbnf {
  return rules.named("colon", () => COLON);
}

/** Matches one character of a string, escaped or not; a pair of `\u` escapes of one character counts as one. */
export function stringChar(rules: GrammarRules): Gbnf {
  return rules.named("char", () => {
    const hex = charsOf("09", "AF", "af");
    const d = charsOf("DD", "dd");
    const high = sequence(literal("\\u"), d, charsOf("89", "AB", "ab"), hex, hex);
    return choice(
      chars([0x20, 0x21], [0x23, 0x5b], [0x5d, 0xd7ff], [0xe000, 0x10ffff]),
      sequence(literal("\\"), charsOf('""', "//", "\\\\", "bb", "ff", "nn", "rr", "tt")),
      sequence(literal("\\u"), charsOf("09", "AC", "EF", "ac", "ef"), hex, hex, hex),
      sequence(literal("\\u"), d, charsOf("07"), hex, hex),
      sequence(high, literal("\\u"), d, charsOf("CF", "cf"), hex, hex),
    );
  });
}

export function anyString(rules: GrammarRules): Gbnf {
  return rules.named("string", () => sequence(literal('"'), repeat(stringChar(rules), 0, undefined), literal('"')));
}

/** Matches any number; digits and exponent (to 99) are bounded so that the number is finite in double precision. */
export function anyNumber(rules: GrammarRules): Gbnf {
  return rules.named("number", () => {
    const exponent = sequence(choice(literal("e"), literal("E")), optional(choice(literal("+"), literal("-"))));
    return sequence(anyInteger(rules), optional(fraction()), optional(sequence(exponent, repeat(DIGIT, 1, 2))));
  });
}

export function anyInteger(rules: GrammarRules): Gbnf {
  return rules.named("integer", () => {
    const digits = sequence(charsOf("19"), repeat(DIGIT, 0, MAX_DIGITS - 1));
    return sequence(optional(literal("-")), choice(literal("0"), digits));
  });
}

export function fraction(maxDigits = MAX_FRACTION_DIGITS): Gbnf {
  return sequence(literal("."), repeat(DIGIT, 1, maxDigits));
}

export function boolean(): Gbnf {
  return choice(literal("true"), literal("false"));
}

/** Matches a member of an object: key, colon, value. */
export function anyMember(rules: GrammarRules, key: Gbnf, value: Gbnf): Gbnf {
  return sequence(key, colon(rules), value);
}

export function anyObject(rules: GrammarRules): Gbnf {
  return rules.named("object", () => {
    const member = rules.named("member", () => anyMember(rules, anyString(rules), anyValue(rules)));
    return sequence(literal("{"), rules.list(member, comma(rules), 0, undefined), literal("}"));
  });
}

export function anyArray(rules: GrammarRules): Gbnf {
  return rules.named("array", () =>
    sequence(literal("["), rules.list(anyValue(rules), comma(rules), 0, undefined), literal("]")),
  );
}

export function anyValue(rules: GrammarRules): Gbnf {
  return rules.named("value", () =>
    choice(anyObject(rules), anyArray(rules), anyString(rules), anyNumber(rules), boolean(), literal("null")),
  );
}

/** Matches one value, in its shortest text or with a space behind commas and colons. */
export function fixedValue(rules: GrammarRules, value: JsonValue): Gbnf {
  if (typeof value !== "object" || value === null) return literal(JSON.stringify(value));
  const join = (parts: readonly Gbnf[]) => parts.flatMap((part, i) => (i === 0 ? [part] : [comma(rules), part]));
  if (isList(value)) {
    return sequence(literal("["), ...join(value.map((item) => fixedValue(rules, item))), literal("]"));
  }
  const members = Object.entries(value).map(([key, entry]) => fixedMember(rules, key, fixedValue(rules, entry)));
  return sequence(literal("{"), ...join(members), literal("}"));
}

export function fixedMember(rules: GrammarRules, key: string, value: Gbnf): Gbnf {
  return sequence(literal(JSON.stringify(key)), colon(rules), value);
}

/** Common prefixes are written once: the sampler follows every open alternative for each token. */
export function anyOfTexts(texts: readonly string[]): Gbnf {
  return anyOfRests([...new Set(texts)], 0);
}

/** Matches the rest, from index `from` on, of texts that are equal up to there: "Paris" and "Pisa" are "P" (aris | isa). */
function anyOfRests(texts: readonly string[], from: number): Gbnf {
  const byNext = new Map<number, string | string[]>();
  let hasEmpty = false;
  for (const text of texts) {
    const next = text.codePointAt(from);
    const group = next === undefined ? undefined : byNext.get(next);
    if (next === undefined) hasEmpty = true;
    else if (group === undefined) byNext.set(next, text);
    else if (typeof group === "string") byNext.set(next, [group, text]);
    else group.push(text);
  }
  const options: Gbnf[] = [];
  for (const group of byNext.values()) {
    if (typeof group === "string") options.push(literal(group.slice(from)));
    else {
      const end = commonEnd(group, from);
      options.push(sequence(literal(group[0]?.slice(from, end) ?? ""), anyOfRests(group, end)));
    }
  }
  if (options.length === 0) return hasEmpty ? EMPTY : choice();
  return hasEmpty ? optional(choice(...options)) : choice(...options);
}

/** Returns the length of the common prefix of the texts, in UTF-16 units and never inside a character. */
function commonEnd(group: readonly string[], from: number): number {
  const [first = ""] = group;
  let end = from;
  while (end < first.length) {
    const code = first.codePointAt(end) ?? 0;
    for (const text of group) if (text.codePointAt(end) !== code) return end;
    end += code > 0xffff ? 2 : 1;
  }
  return end;
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
