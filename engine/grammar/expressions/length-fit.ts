import type { Expression } from "./regular-expression.ts";
import { type LengthBounds, lengthBounds, sequenceParts } from "./string-pattern.ts";

type Repeat = Extract<Expression, { kind: "repeat" }>;

/** An expression whose texts have lengths within bounds; `isWhole` if it matches all such texts of the original. */
export type FittedExpression = { readonly expression: Expression; readonly isWhole: boolean };

const NOTHING: Expression = { kind: "choice", options: [] };

/** Narrows counts until every match has a length within the bounds; undefined if that is impossible. */
export function withinLength(expression: Expression, bounds: LengthBounds): FittedExpression | undefined {
  const parts = sequenceParts(expression);
  const [only] = parts;
  if (parts.length === 1 && only?.kind === "choice") {
    const fitted = only.options.flatMap((option) => withinLength(option, bounds) ?? []);
    if (fitted.length < only.options.length) return undefined;
    const options = fitted.map((each) => each.expression).filter((option) => option !== NOTHING);
    if (options.length === 0) return undefined;
    return { expression: { kind: "choice", options }, isWhole: fitted.every(({ isWhole }) => isWhole) };
  }
  return fittedSequence(parts, bounds);
}

function fittedSequence(
  parts: readonly Expression[],
  { minLength, maxLength }: LengthBounds,
): FittedExpression | undefined {
  const lengths = parts.map(lengthBounds);
  const least = lengths.reduce((sum, each) => sum + each.minLength, 0);
  const most = lengths.reduce((sum, each) => sum + (each.maxLength ?? Number.POSITIVE_INFINITY), 0);
  if (least > (maxLength ?? Number.POSITIVE_INFINITY) || most < minLength)
    return { expression: NOTHING, isWhole: true };
  const elastic = parts.flatMap((part, at) => (isElastic(part) ? [at] : []));
  const endless = elastic.filter((at) => lengths[at]?.maxLength === undefined);
  const longest = (at: number) => lengths[at]?.maxLength ?? 0;
  const stretched = endless.length > 0 ? endless : elastic.toSorted((a, b) => longest(b) - longest(a)).slice(0, 1);
  const [first] = stretched;
  if (first === undefined) return undefined;
  const ofRest = (pick: (each: LengthBounds) => number) =>
    lengths.reduce((sum, each, at) => sum + (stretched.includes(at) ? 0 : pick(each)), 0);
  const restLeast = ofRest((each) => each.minLength);
  const restMost = ofRest((each) => each.maxLength ?? Number.POSITIVE_INFINITY);
  const share = maxLength === undefined ? undefined : Math.floor((maxLength - restMost) / stretched.length);
  if (share !== undefined && !(share >= 0)) return undefined;
  const narrowed = [...parts];
  for (const at of stretched) {
    const part = parts[at];
    if (part === undefined || !isElastic(part)) return undefined;
    const unit = lengthBounds(part.part).minLength;
    const others =
      restLeast + stretched.reduce((sum, other) => sum + (other === at ? 0 : (lengths[other]?.minLength ?? 0)), 0);
    const min = at === first ? Math.max(part.min, Math.ceil((minLength - others) / unit)) : part.min;
    const max =
      share === undefined ? part.max : Math.min(part.max ?? Number.POSITIVE_INFINITY, Math.floor(share / unit));
    if (max !== undefined && max < min) return undefined;
    narrowed[at] = { ...part, min, max };
  }
  return {
    expression: { kind: "sequence", parts: narrowed },
    isWhole: stretched.length === 1 && restLeast === restMost,
  };
}

function isElastic(part: Expression): part is Repeat {
  if (part.kind !== "repeat") return false;
  const { minLength, maxLength } = lengthBounds(part.part);
  return minLength > 0 && minLength === maxLength;
}
