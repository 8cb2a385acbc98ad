import { charsOf, choice, EMPTY, type Gbnf, literal, NEVER, optional, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { MAX_DIGITS } from "../../gbnf/json-value.ts";

/** A number by its digits: a grammar compares texts, and a double has no decimal digits. */
type Decimal = {
  readonly isNegative: boolean;
  readonly whole: bigint;
  /** The digits after the point, without trailing zeros. */
  readonly fraction: string;
};

/** Reads the shortest text of a double: 1.5e-7 has the whole part 0 and the fraction 00000015. */
export function decimalOf(value: number): Decimal {
  const [digits = "0", exponent = "0"] = Math.abs(value).toString().split("e");
  const [before = "0", behind = ""] = digits.split(".");
  const shift = Number(exponent);
  const all = before + behind;
  const point = before.length + shift;
  const whole = point <= 0 ? "0" : all.slice(0, point).padEnd(point, "0");
  const fraction = (point <= 0 ? "0".repeat(-point) + all : all.slice(point)).replace(/0+$/, "");
  return { isNegative: value < 0, whole: BigInt(whole), fraction };
}

type IntegerRange = { readonly min: bigint | undefined; readonly max: bigint | undefined };

/** `isOut`: the value is excluded. */
export type NumberBound = { readonly value: Decimal; readonly isOut: boolean };

type NumberRange = {
  readonly min: NumberBound | undefined;
  readonly max: NumberBound | undefined;
  /** The most digits after the point; 0 for integers. */
  readonly maxFraction: number;
  /** Whether integers are excluded, `1.0` among them. */
  readonly isFractional: boolean;
};

const DIGIT = charsOf("09");
const LARGEST = 10n ** BigInt(MAX_DIGITS) - 1n;
/** Decimals of up to this many digits are distinct in double precision. */
const EXACT_DIGITS = 15;

/** The digits from one to another, precomputed: wide ranges use these few very often. */
const SPANS: readonly Gbnf[] = Array.from({ length: 100 }, (_, at) => {
  const [low, high] = [String(Math.floor(at / 10)), String(at % 10)];
  return low === high ? literal(low) : charsOf(low + high);
});

const span = (low: number, high: number): Gbnf => SPANS[10 * low + high] ?? NEVER;
const digits = (rules: GrammarRules, count: number) => rules.times(DIGIT, count, count);

/**
 * Matches the integers between two inclusive bounds, of up to 19 digits, without leading zeros.
 *
 *     -5 to 12     "-" [1-5] | [0-9] | "1" [0-2]
 *     27 to 5000   "2" [7-9] | [3-9] [0-9] | [1-9] [0-9]{2} | [1-4] [0-9]{3} | "5000"
 */
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
 * Matches the numbers between two bounds, with or without a fraction, never with an exponent.
 *
 *     0.5 to 2.25, two places   "0." ("5" [0-9]? | [6-9] [0-9]?) | "1" ("." [0-9]{1,2})? | "2" …
 *
 * Below zero the same is written of absolute values, with the bounds exchanged. `-0` and `-0.0` are zero.
 */
export function numberInRange(rules: GrammarRules, { min, max, ...form }: NumberRange): Gbnf {
  const isAbove = min !== undefined && !min.value.isNegative;
  const isBelow = max !== undefined && (max.value.isNegative || isZero(max.value));
  const options: Gbnf[] = [];
  if (max === undefined || !max.value.isNegative) options.push(positives(rules, form, isAbove ? min : undefined, max));
  if (!isAbove || (min !== undefined && isZero(min.value) && !min.isOut)) {
    options.push(sequence(literal("-"), positives(rules, form, isBelow ? max : undefined, min)));
  }
  return choice(...options);
}

function isZero({ whole, fraction }: Decimal): boolean {
  return whole === 0n && fraction === "";
}

type FractionForm = Pick<NumberRange, "maxFraction" | "isFractional">;

/**
 * Writes the numbers of at least zero; bounds are absolute values. Only whole parts that equal a bound's need its
 * fraction; all between take any:
 *
 *     whole part of `min`, and its fraction   |   whole parts between, any fraction   |   whole part of `max`, …
 */
function positives(
  rules: GrammarRules,
  form: FractionForm,
  min: NumberBound | undefined,
  max: NumberBound | undefined,
): Gbnf {
  const low = min?.value.whole ?? 0n;
  const high = max === undefined || max.value.whole > LARGEST ? undefined : max.value.whole;
  const last = high ?? LARGEST;
  if (low > last) return NEVER;
  const above = fractionsNear(form, min?.isOut ? low : undefined);
  const below = fractionsNear(form, max?.isOut ? last : undefined);
  const least = min ?? { value: { isNegative: false, whole: 0n, fraction: "" }, isOut: false };
  if (high !== undefined && low === high && max !== undefined)
    return sequence(literal(String(low)), fractions(rules, min?.isOut ? above : below, least, max));
  const behindLow = fractions(rules, low + 1n === high ? below : above, least, undefined);
  const options = [sequence(literal(String(low)), behindLow)];
  const behind = high === undefined ? LARGEST : high - 1n;
  if (low + 1n <= behind) options.push(sequence(naturals(rules, low + 1n, behind), anyFraction(rules, below)));
  if (high !== undefined && max !== undefined)
    options.push(sequence(literal(String(high)), fractions(rules, below, undefined, max)));
  return choice(...options);
}

/**
 * Returns the form of fractions after a whole part near an exclusive bound: more digits could round to the bound. Below 2
 * the text 1.99999999999999999 is another decimal, and the same double as 2.
 */
function fractionsNear({ maxFraction, isFractional }: FractionForm, near: bigint | undefined): FractionForm {
  const exact = near === undefined ? maxFraction : EXACT_DIGITS - String(near).length;
  return { maxFraction: Math.max(0, Math.min(maxFraction, exact)), isFractional };
}

/** Matches the fractions with point where nothing bounds them: optional, unless integers are excluded. */
function anyFraction(rules: GrammarRules, { maxFraction, isFractional }: FractionForm): Gbnf {
  if (isFractional) return maxFraction === 0 ? NEVER : sequence(literal("."), notAllZeros(rules, maxFraction));
  return maxFraction === 0 ? EMPTY : optional(sequence(literal("."), rules.times(DIGIT, 1, maxFraction)));
}

/** Matches 1 to `most` digits, not all zeros, of which at most five lead: `[1-9] [0-9]? | "0" [1-9]` for two. */
function notAllZeros(rules: GrammarRules, most: number): Gbnf {
  if (most === 0) return NEVER;
  const zeros = (count: number) => literal("0".repeat(count));
  const options = Array.from({ length: Math.min(most, MAX_LEADING_ZEROS) }, (_, count) =>
    sequence(zeros(count), charsOf("19"), rules.times(DIGIT, 0, most - count - 1)),
  );
  return rules.once(`not all zeros ${most}`, () => choice(...options));
}

/** Matches the fractions with point, or none, after a whole part that equals that of `min`, of `max`, or of both. */
function fractions(
  rules: GrammarRules,
  form: FractionForm,
  min: NumberBound | undefined,
  max: NumberBound | undefined,
): Gbnf {
  const { maxFraction: most, isFractional } = form;
  const low = min === undefined || (min.value.fraction === "" && !min.isOut) ? undefined : min;
  if (low === undefined && max === undefined) return anyFraction(rules, form);
  const high = max && { digits: max.value.fraction, isOut: max.isOut };
  const isNothingIn = !isFractional && low === undefined && !(high?.digits === "" && high.isOut);
  const from = low && { digits: low.value.fraction, isOut: low.isOut };
  const first = { isFirst: true, isZero: isFractional };
  const inside = most === 0 ? NEVER : fractionDigits(rules, from, high, most, first);
  return choice(sequence(literal("."), inside), ...(isNothingIn ? [EMPTY] : []));
}

/**
 * Matches the digits behind the point between two bounds, of which each call writes one, up to `left`. A bound counts as
 * long as all digits so far are its own; a digit strictly between the two leaves the rest free. A bound without further
 * digits is followed by zeros:
 *
 *     over 5, below 8, three digits   "5" ("0" [1-9] | [1-9] [0-9]?) | [6-7] [0-9]{0,2}
 *
 * The number may end where its digits equal the lower bound's (or exceed them) and do not reach the upper one's.
 */
function fractionDigits(
  rules: GrammarRules,
  low: Digits | undefined,
  high: Digits | undefined,
  left: number,
  before: Before,
): Gbnf {
  if (low === undefined && high === undefined)
    return before.isZero ? notAllZeros(rules, left) : rules.times(DIGIT, before.isFirst ? 1 : 0, left);
  const isEndIn = (low === undefined || (low.digits === "" && !low.isOut)) && !(high?.digits === "" && high.isOut);
  const end = isEndIn && !before.isFirst && !before.isZero ? [EMPTY] : [];
  if (left === 0) return choice(...end);
  const from = low === undefined ? 0 : Number(low.digits.charAt(0));
  const to = high === undefined ? 9 : Number(high.digits.charAt(0));
  if (from > to) return choice(...end);
  const options: Gbnf[] = [];
  const along = (digit: number, below: Digits | undefined, above: Digits | undefined) => {
    const isDone = below?.digits === "" && !below.isOut;
    const behind = { isFirst: false, isZero: before.isZero && digit === 0 };
    const rest = fractionDigits(rules, isDone ? undefined : below, above, left - 1, behind);
    options.push(sequence(span(digit, digit), rest));
  };
  const lowRest = low && rest(low);
  const highRest = high && rest(high);
  if (from === to && low !== undefined && high !== undefined) along(from, lowRest, highRest);
  else {
    if (low !== undefined) along(from, lowRest, undefined);
    let [first, last] = [low === undefined ? from : from + 1, high === undefined ? to : to - 1];
    if (before.isZero && first === 0 && first <= last) {
      along(0, undefined, undefined);
      first = 1;
    }
    if (first <= last) options.push(sequence(span(first, last), rules.times(DIGIT, 0, left - 1)));
    if (high !== undefined) along(to, undefined, highRest);
  }
  return choice(...options, ...end);
}

/** Returns a bound behind its next digit. */
const rest = ({ digits: of, isOut }: Digits): Digits => ({ digits: of.slice(1), isOut });

/** `isZero`: all digits so far are zero where that is forbidden. */
type Before = { readonly isFirst: boolean; readonly isZero: boolean };

/** The alternatives of `notAllZeros`: none to five leading zeros, each count of them is one. */
const MAX_LEADING_ZEROS = 6;

/** The digits of a bound that are still to be compared. */
type Digits = { readonly digits: string; readonly isOut: boolean };

/** Matches whole numbers from `low` to `high`, both of at least zero: one alternative for each number of digits. */
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

/**
 * Matches the texts from `from` to `to`, which have one length. After a first digit that is a bound's, the rest is bounded
 * by that bound; after one between, it is free. A bound whose rest is all zeros, or all nines, bounds nothing:
 *
 *     128 to 342   "1" ("2" [8-9] | [3-9] [0-9]) | "2" [0-9]{2} | "3" ([0-3] [0-9] | "4" [0-2])
 *     100 to 399   [1-3] [0-9]{2}
 */
function sameLength(rules: GrammarRules, from: string, to: string): Gbnf {
  if (from === "") return EMPTY;
  const low = Number(from.charAt(0));
  const high = Number(to.charAt(0));
  const rest = from.length - 1;
  if (rest === 0) return span(low, high);
  if (low === high) return sequence(span(low, low), sameLength(rules, from.slice(1), to.slice(1)));
  const isRound = (text: string, digit: string) => text.slice(1) === digit.repeat(rest);
  const first = isRound(from, "0") ? low : low + 1;
  const last = isRound(to, "9") ? high : high - 1;
  const options: Gbnf[] = [];
  if (first !== low) options.push(sequence(span(low, low), sameLength(rules, from.slice(1), "9".repeat(rest))));
  if (first <= last) options.push(sequence(span(first, last), digits(rules, rest)));
  if (last !== high) options.push(sequence(span(high, high), sameLength(rules, "0".repeat(rest), to.slice(1))));
  return choice(...options);
}
