import { charsOf, choice, type Gbnf, literal, NEVER, optional, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { fraction, MAX_DIGITS } from "../../gbnf/json-value.ts";

/** The bounds of a number, both of which are part of the range; undefined is none. */
export type IntegerRange = { readonly min: bigint | undefined; readonly max: bigint | undefined };

const DIGIT = charsOf("09");
const LARGEST = 10n ** BigInt(MAX_DIGITS) - 1n;

const span = (low: string, high: string) => (low === high ? literal(low) : charsOf(low + high));
const digits = (rules: GrammarRules, count: number) => rules.times(DIGIT, count, count);

/** Matches the integers of a range, digit by digit; where a bound is missing or beyond it, up to 19 digits. */
export function integerInRange(rules: GrammarRules, { min = -LARGEST, max = LARGEST }: IntegerRange): Gbnf {
  const low = min < -LARGEST ? -LARGEST : min;
  const high = max > LARGEST ? LARGEST : max;
  if (low > high) return NEVER;
  const options: Gbnf[] = [];
  if (low < 0n) options.push(sequence(literal("-"), naturals(rules, high < 0n ? -high : 1n, -low)));
  if (high >= 0n) options.push(naturals(rules, low > 0n ? low : 0n, high));
  return choice(...options);
}

/**
 * Matches the numbers between two integers, with or without digits after the point, never with an exponent. `minIsOut`
 * and `maxIsOut` take the bound itself out.
 */
export function numberInRange(
  rules: GrammarRules,
  range: IntegerRange & { readonly minIsOut: boolean; readonly maxIsOut: boolean },
): Gbnf {
  const { min, max, minIsOut, maxIsOut } = range;
  const options: Gbnf[] = [];
  if (max === undefined || max > 0n) {
    const from = min === undefined || min < 0n ? { value: 0n, isOut: false } : { value: min, isOut: minIsOut };
    options.push(positives(rules, from, { value: max, isOut: maxIsOut }));
  } else if (max === 0n && !maxIsOut && (min === undefined || min < 0n || (min === 0n && !minIsOut))) {
    options.push(zero());
  }
  if (min === undefined || min < 0n) {
    const from = max === undefined || max > 0n ? { value: 0n, isOut: false } : { value: -max, isOut: maxIsOut };
    const to = { value: min === undefined ? undefined : -min, isOut: minIsOut };
    options.push(sequence(literal("-"), positives(rules, from, to)));
  }
  return choice(...options);
}

type Bound<T> = { readonly value: T; readonly isOut: boolean };

/** Matches numbers from a bound of at least zero upwards. */
function positives(rules: GrammarRules, from: Bound<bigint>, to: Bound<bigint | undefined>): Gbnf {
  const top = to.value ?? LARGEST;
  if (from.value > top) return NEVER;
  if (from.value === top) return from.isOut || to.isOut ? NEVER : sequence(literal(String(top)), optional(zeros()));
  // Digits beyond double precision could round up to a bound that is out.
  const part = fraction(to.isOut ? Math.max(1, 15 - String(top).length) : undefined);
  const lowest = literal(String(from.value));
  const options = [from.isOut ? sequence(lowest, aboveZero()) : sequence(lowest, optional(part))];
  if (from.value + 1n < top) options.push(sequence(naturals(rules, from.value + 1n, top - 1n), optional(part)));
  if (!to.isOut) options.push(sequence(literal(String(top)), optional(zeros())));
  return choice(...options);
}

const zeros = () => sequence(literal("."), repeat(literal("0"), 1, 16));
const zero = () => sequence(literal("0"), optional(zeros()));
/** Matches a fraction that is not nothing, and not so small that double precision would lose it. */
const aboveZero = () => sequence(literal("."), repeat(literal("0"), 0, 3), charsOf("19"), repeat(DIGIT, 0, 6));

function naturals(rules: GrammarRules, low: bigint, high: bigint): Gbnf {
  const from = String(low);
  const to = String(high);
  if (from.length === to.length) return sameLength(rules, from, to);
  const options = [sameLength(rules, from, "9".repeat(from.length))];
  if (to.length - from.length > 1)
    options.push(sequence(charsOf("19"), rules.times(DIGIT, from.length, to.length - 2)));
  options.push(sameLength(rules, `1${"0".repeat(to.length - 1)}`, to));
  return choice(...options);
}

/** Matches digit strings between two of the same length. */
function sameLength(rules: GrammarRules, from: string, to: string): Gbnf {
  const low = from.charAt(0);
  const high = to.charAt(0);
  if (from.length <= 1) return from === "" ? sequence() : span(low, high);
  const rest = from.length - 1;
  if (low === high) return sequence(literal(low), sameLength(rules, from.slice(1), to.slice(1)));
  const isRound = (text: string, digit: string) => text.slice(1) === digit.repeat(rest);
  const first = isRound(from, "0") ? low : String(Number(low) + 1);
  const last = isRound(to, "9") ? high : String(Number(high) - 1);
  const options: Gbnf[] = [];
  if (first !== low) options.push(sequence(literal(low), sameLength(rules, from.slice(1), "9".repeat(rest))));
  if (first <= last) options.push(sequence(span(first, last), digits(rules, rest)));
  if (last !== high) options.push(sequence(literal(high), sameLength(rules, "0".repeat(rest), to.slice(1))));
  return choice(...options);
}
