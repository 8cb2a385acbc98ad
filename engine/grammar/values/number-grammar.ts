import type { Gbnf } from "../../gbnf/gbnf.ts";
import { anyInteger, anyNumber } from "../../gbnf/json-value.ts";
import type { Conversion, PlainNode } from "../schema/schema-facets.ts";
import { integerInRange, numberInRange } from "./number-range.ts";

/** Work that writing a range of numbers costs, digit by digit. */
const RANGE_WORK = 250;

/** A bound and whether the bound itself is out. */
type Bound = { readonly value: number; readonly isOut: boolean };

/**
 * Matches numbers: bounds of integers exactly; of other numbers exactly where the bounds are whole, else widened to the
 * next whole number and noted.
 */
export function numberGrammar(conversion: Conversion, nodes: readonly PlainNode[], isInteger: boolean): Gbnf {
  const low = strictest(nodes, "minimum", "exclusiveMinimum", (a, b) => a > b);
  const high = strictest(nodes, "maximum", "exclusiveMaximum", (a, b) => a < b);
  const steps = nodes.filter(({ schema }) => schema.multipleOf !== undefined);
  const isWhole = isInteger || steps.some(({ schema }) => Number.isInteger(schema.multipleOf));
  for (const node of steps)
    if (!(isWhole && 1 % Number(node.schema.multipleOf) === 0)) conversion.skip(node, "multipleOf");
  if (low === undefined && high === undefined) {
    return isWhole ? anyInteger(conversion.rules) : anyNumber(conversion.rules);
  }
  conversion.rules.budget.pay(RANGE_WORK);
  const min = low && (low.isOut && isWhole ? Math.floor(low.value) + 1 : Math.ceil(low.value));
  const max = high && (high.isOut && isWhole ? Math.ceil(high.value) - 1 : Math.floor(high.value));
  const { rules } = conversion;
  if (isWhole)
    return rules.once(`integers ${min} ${max}`, () => integerInRange(rules, { min: exact(min), max: exact(max) }));
  skipFractions(conversion, nodes, low, ["minimum", "exclusiveMinimum"]);
  skipFractions(conversion, nodes, high, ["maximum", "exclusiveMaximum"]);
  const range = {
    min: exact(low && Math.floor(low.value)),
    max: exact(high && Math.ceil(high.value)),
    minIsOut: low?.isOut === true && Number.isInteger(low.value),
    maxIsOut: high?.isOut === true && Number.isInteger(high.value),
  };
  return rules.once(`numbers ${Object.values(range).join(" ")}`, () => numberInRange(rules, range));
}

const exact = (value: number | undefined) => (value === undefined ? undefined : BigInt(value));

/**
 * Returns the strictest of the bounds that the nodes set. The exclusive keyword holds a number of its own, or (in old
 * drafts) `true` beside the plain keyword.
 */
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

function skipFractions(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  bound: Bound | undefined,
  keywords: readonly string[],
): void {
  if (bound === undefined || Number.isInteger(bound.value)) return;
  for (const node of nodes) {
    for (const keyword of keywords) if (node.schema[keyword] === bound.value) conversion.skip(node, keyword);
  }
}
