import { choice, type Gbnf, literal, NEVER, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyInteger, anyNumber, anyOfTexts, MAX_FRACTION_DIGITS } from "../../gbnf/json-value.ts";
import type { AutomatonState } from "../expressions/automaton.ts";
import { automatonGrammar } from "../expressions/string-pattern.ts";
import type { Conversion, PlainNode } from "../schema/schema-alternatives.ts";
import { isIntegerExclusion } from "../schema/schema-negation.ts";
import { decimalOf, integerInRange, type NumberBound, numberInRange } from "./number-range.ts";

/** Steps of work for any constrained number, and for each digit of a bound, which adds up to three alternatives. */
const RANGE_WORK = 16;
const DIGIT_WORK = 10;
/** The most multiples between two bounds that are written as a list. */
const MAX_LISTED = 256;
/** The greatest divisor whose remainders are states, and the maximum digits of a multiple before the point. */
const MAX_DIVISOR = 64;
const MAX_MULTIPLE_DIGITS = 12;

/** `isOut`: the value is excluded. */
type Bound = { readonly value: number; readonly isOut: boolean };

/** The multiples of `divisor` / 10 ^ `places`: a step of 0.25 has the divisor 25 and two places. */
type Multiples = {
  readonly low: Bound | undefined;
  readonly high: Bound | undefined;
  readonly divisor: number;
  readonly places: number;
};

/**
 * Matches numbers. Bounds are exact. `multipleOf` is, too, where it has one of four forms; else it is reported:
 *
 *     integers, or a step of a power of ten     a count of digits after the point: 0.01 allows two
 *     both bounds, at most 256 multiples        a list: step 0.5 in 0 to 2 is "0" ".5"? | "1" ".5"? | "2"
 *     no bound but 0, a divisor up to 64        an automaton of remainders (`multipleStates`)
 *     the same with zeros at the end            step 300 is the automaton of 3, and "00" behind it
 */
export function numberGrammar(conversion: Conversion, nodes: readonly PlainNode[], isInteger: boolean): Gbnf {
  const { rules } = conversion;
  const low = strictest(nodes, "minimum", "exclusiveMinimum", (a, b) => a > b);
  const high = strictest(nodes, "maximum", "exclusiveMaximum", (a, b) => a < b);
  if (low !== undefined && high !== undefined && low.value > high.value) return NEVER;
  const step = stepOf(conversion, nodes, isInteger);
  const isFractional = nodes.some(({ schema }) => isIntegerExclusion(schema));
  if (isFractional && (isInteger || step?.places === 0)) return NEVER;
  if (low === undefined && high === undefined && step === undefined && !isFractional)
    return isInteger ? anyInteger(rules) : anyNumber(rules);
  rules.budget.pay(RANGE_WORK);
  if (step !== undefined && step.divisor !== 1) {
    if (isFractional) for (const node of nodes) if (isIntegerExclusion(node.schema)) conversion.skip(node, "not");
    const key = `multiples ${JSON.stringify([low, high, step])}`;
    // `once` makes a rule of the refusal as well: the next equal schema finds it at no cost.
    const found = rules.once(key, () => multiples(rules, { low, high, ...step }) ?? TOO_MANY);
    if (rules.all.get(found.kind === "rule" ? found.name : "") !== TOO_MANY) return found;
    for (const node of nodes) if (node.schema.multipleOf !== undefined) conversion.skip(node, "multipleOf");
  }
  if (isInteger || step?.places === 0) {
    const min = low && (low.isOut ? Math.floor(low.value) + 1 : Math.ceil(low.value));
    const max = high && (high.isOut ? Math.ceil(high.value) - 1 : Math.floor(high.value));
    return rules.once(`integers ${min} ${max}`, () => {
      const range = { min: exact(min), max: exact(max) };
      rules.budget.pay(DIGIT_WORK * (String(range.min ?? "").length + String(range.max ?? "").length));
      return integerInRange(rules, range);
    });
  }
  const range = {
    min: boundOf(low),
    max: boundOf(high),
    maxFraction: step?.places ?? MAX_FRACTION_DIGITS,
    isFractional,
  };
  const key = `numbers ${low?.value} ${low?.isOut} ${high?.value} ${high?.isOut} ${range.maxFraction} ${isFractional}`;
  return rules.once(key, () => {
    rules.budget.pay(DIGIT_WORK * (digitsOf(range.min) + digitsOf(range.max)));
    return numberInRange(rules, range);
  });
}

function digitsOf(bound: NumberBound | undefined): number {
  return bound === undefined ? 0 : String(bound.value.whole).length + bound.value.fraction.length;
}

/** Digits of bounds beyond 2 ^ 53 are those of the double, not of the schema's text. */
const exact = (value: number | undefined) => (value === undefined ? undefined : BigInt(value));
const boundOf = (bound: Bound | undefined): NumberBound | undefined =>
  bound && { value: decimalOf(bound.value), isOut: bound.isOut };

/** Marks multiples that no form writes, by its identity: NEVER would be a number that cannot be. */
const TOO_MANY: Gbnf = { kind: "choice", options: [] };

/**
 * The least common step of all nodes, an integer counting as the step 1; undefined without `multipleOf`. A step that
 * cannot be combined is not enforced, and reported.
 */
function stepOf(conversion: Conversion, nodes: readonly PlainNode[], isInteger: boolean) {
  let step: { readonly divisor: number; readonly places: number } | undefined = isInteger
    ? { divisor: 1, places: 0 }
    : undefined;
  let isAsked = false;
  for (const node of nodes) {
    const { multipleOf } = node.schema;
    if (typeof multipleOf !== "number") continue;
    const { whole, fraction } = decimalOf(multipleOf);
    const asked = { divisor: Number(`${whole}${fraction}`), places: fraction.length };
    const joint: typeof step = step === undefined ? asked : jointStep(step, asked);
    if (joint === undefined) conversion.skip(node, "multipleOf");
    else step = joint;
    isAsked = true;
  }
  return isAsked ? step : undefined;
}

/** Returns the least common multiple of two steps: 0.4 and 0.6 give 1.2, 0.5 and 1 give 1, with no places. */
function jointStep(some: { divisor: number; places: number }, other: { divisor: number; places: number }) {
  const places = Math.max(some.places, other.places);
  const a = BigInt(some.divisor) * 10n ** BigInt(places - some.places);
  const b = BigInt(other.divisor) * 10n ** BigInt(places - other.places);
  const least = (a / greatestDivisor(a, b)) * b;
  const isWhole = places > 0 && least % 10n ** BigInt(places) === 0n;
  const divisor = isWhole ? least / 10n ** BigInt(places) : least;
  return divisor > BigInt(Number.MAX_SAFE_INTEGER)
    ? undefined
    : { divisor: Number(divisor), places: isWhole ? 0 : places };
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b);
}

/** Undefined if no form writes these multiples. */
function multiples(rules: GrammarRules, asked: Multiples): Gbnf | undefined {
  const listed = listedMultiples(rules, asked);
  if (listed !== undefined) return listed;
  const { low, high, divisor, places } = asked;
  const isFrom = (bound: Bound | undefined) => bound !== undefined && bound.value === 0;
  const zeros = places > 0 ? 0 : trailingZeros(divisor);
  const least = divisor / 10 ** zeros;
  const isBounded = (bound: Bound | undefined) => bound !== undefined && !isFrom(bound);
  if (least > MAX_DIVISOR || isBounded(low) || isBounded(high)) return undefined;
  const isOut = (isFrom(low) && low?.isOut) || (isFrom(high) && high?.isOut);
  const states = multipleStates(least, places);
  rules.budget.pay(states.length);
  const behind = zeros > 0 ? literal("0".repeat(zeros)) : sequence();
  const positive = sequence(
    automatonGrammar(rules, states, () => sequence()),
    behind,
  );
  const zero = Array.from({ length: places + 1 }, (_, digits) => (digits === 0 ? "0" : `0.${"0".repeat(digits)}`));
  const options = [...(isOut ? [] : [anyOfTexts(zero)])];
  if (!isFrom(high)) options.push(positive);
  if (!isFrom(low)) options.push(sequence(literal("-"), positive));
  return choice(...options);
}

function trailingZeros(value: number): number {
  let count = 0;
  for (let left = value; left % 10 === 0 && left > 0; left /= 10) count += 1;
  return count;
}

/** Undefined for more multiples than are listed, and for ones that JavaScript writes with an exponent. */
function listedMultiples(rules: GrammarRules, { low, high, divisor, places }: Multiples): Gbnf | undefined {
  if (low === undefined || high === undefined) return undefined;
  const unit = 10 ** places;
  const count = ((high.value - low.value) * unit) / divisor;
  if (!(count <= MAX_LISTED)) return undefined;
  // The quotient of a bound that is a multiple may be off by rounding; the comparison below settles such an end.
  const first = Math.ceil((low.value * unit) / divisor - 1e-9);
  const last = Math.floor((high.value * unit) / divisor + 1e-9);
  const texts: string[] = [];
  for (let times = first; times <= last; times += 1) {
    const value = Number(((times * divisor) / unit).toFixed(places));
    if ((low.isOut && value <= low.value) || (high.isOut && value >= high.value)) continue;
    if (value >= low.value && value <= high.value) texts.push(String(value === 0 ? 0 : value));
  }
  rules.budget.pay(texts.length);
  return texts.some((text) => text.includes("e")) ? undefined : anyOfTexts(texts);
}

/**
 * Creates the automaton of the positive multiples. A number read from the left has, with one more digit d, the remainder
 * (10 r + d) mod `divisor`, so a state is the remainder so far, with how many digits may still come:
 *
 *     remainder   of the digits before and behind the point
 *     digits      before the point, to bound them, and 0 behind it; -1 while there is nothing but zeros, which is no
 *                 positive number
 *     fraction    digits behind the point; -1 before the point
 *
 * Multiples of 0.5 (divisor 5, one place): "1" leads to remainder 1, "." keeps it, "5" leads to 15 mod 5 = 0, which is
 * accepted. So is "1" alone, as its remainder counts with the places that are missing: 1 * 10 mod 5 = 0.
 */
function multipleStates(divisor: number, places: number): readonly AutomatonState[] {
  const states: { accepts: boolean; steps: AutomatonState["steps"] }[] = [];
  const known = new Map<string, number>();
  const open: (readonly [remainder: number, digits: number, fraction: number])[] = [];
  const stateOf = (remainder: number, digits: number, fraction: number): number => {
    const key = `${remainder} ${digits} ${fraction}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    open.push([remainder, digits, fraction]);
    known.set(key, states.length);
    return states.push({ accepts: false, steps: [] }) - 1;
  };
  const ways = (remainder: number, digits: number, fraction: number) => {
    const steps: AutomatonState["steps"][number][] = [];
    const add = (char: number, to: number) => steps.push({ ranges: [[char, char]], to });
    const canGoOn = fraction < 0 ? digits < MAX_MULTIPLE_DIGITS : fraction < places;
    for (let digit = fraction < 0 && digits === 0 ? 1 : 0; digit <= 9 && canGoOn; digit += 1) {
      const next = (remainder * 10 + digit) % divisor;
      const behind = digits < 0 && digit > 0 ? 0 : digits;
      add(0x30 + digit, fraction < 0 ? stateOf(next, digits + 1, -1) : stateOf(next, behind, fraction + 1));
    }
    if (places > 0 && fraction < 0 && digits > 0) add(0x2e, stateOf(remainder, 0, 0));
    if (places > 0 && digits === 0 && fraction < 0) add(0x30, stateOf(0, -1, -1));
    return steps;
  };
  stateOf(0, 0, -1);
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const [remainder, digits, fraction] = next;
    const at = known.get(next.join(" "));
    const state = at === undefined ? undefined : states[at];
    if (state === undefined) continue;
    const isNumber = fraction < 0 ? digits > 0 : fraction > 0 && digits === 0;
    state.accepts = isNumber && (remainder * 10 ** (places - Math.max(0, fraction))) % divisor === 0;
    // Only the point may follow a leading zero.
    const isPoint = digits < 0 && fraction < 0;
    state.steps = isPoint ? [{ ranges: [[0x2e, 0x2e]], to: stateOf(0, -1, 0) }] : ways(remainder, digits, fraction);
  }
  return states;
}

/** The exclusive keyword is a number or, in old drafts, `true` beside the plain keyword. */
function strictest(
  nodes: readonly PlainNode[],
  plain: string,
  exclusive: string,
  isStricter: (a: number, b: number) => boolean,
): Bound | undefined {
  let best: Bound | undefined;
  const offer = (value: unknown, isOut: boolean) => {
    if (typeof value !== "number") return;
    if (best === undefined || isStricter(value, best.value)) best = { value, isOut };
    else if (value === best.value && isOut) best = { value, isOut };
  };
  for (const { schema } of nodes) {
    offer(schema[plain], schema[exclusive] === true);
    offer(schema[exclusive], true);
  }
  return best;
}
