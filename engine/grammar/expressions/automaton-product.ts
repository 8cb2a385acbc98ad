import type { CodeRange } from "../../gbnf/gbnf.ts";
import type { WorkBudget } from "../../work-budget.ts";
import type { AutomatonState } from "./automaton.ts";
import { ALL_CODES } from "./code-set.ts";
import { FoundStates } from "./found-states.ts";
import { UnsupportedPattern } from "./regular-expression.ts";

/** An automaton and its use in a product: texts must match, must not match, or the match is reported. */
export type ProductPart = {
  readonly automaton: readonly AutomatonState[];
  readonly match: "wanted" | "unwanted" | "told";
};

export type ProductState = AutomatonState & {
  readonly told: readonly boolean[];
};

const DEAD = -1;
const EVERY_TEXT: readonly AutomatonState[] = [{ accepts: true, steps: [{ ranges: ALL_CODES, to: 0 }] }];

/**
 * Texts that all wanted parts and no unwanted one match. Throws `UnsupportedPattern` beyond `maxStates` or the budget.
 */
export function productOf(
  parts: readonly ProductPart[],
  maxStates: number,
  budget: WorkBudget,
): readonly ProductState[] {
  const isBounded = parts.some(({ match }) => match === "wanted");
  const all: readonly ProductPart[] = isBounded ? parts : [{ automaton: EVERY_TEXT, match: "wanted" }, ...parts];
  const found = new FoundStates(maxStates);
  found.numberOf(all.map(() => 0));
  const states: ProductState[] = [];
  // The loop also reaches states found meanwhile.
  for (const places of found.places) {
    const steps = new Map<number, CodeRange[]>();
    for (const { range, places: next } of leaving(all, places, budget)) {
      if (isLost(all, next)) continue;
      const to = found.numberOf(next);
      const ranges = steps.get(to);
      if (ranges === undefined) steps.set(to, [range]);
      else ranges.push(range);
    }
    const isMatched = (at: number) => all[at]?.automaton[places[at] ?? DEAD]?.accepts === true;
    states.push({
      accepts: all.every(({ match }, at) => match === "told" || isMatched(at) === (match === "wanted")),
      told: all.flatMap(({ match }, at) => (match === "told" ? [isMatched(at)] : [])),
      steps: [...steps].map(([to, ranges]) => ({ to, ranges })),
    });
  }
  return states;
}

function isLost(parts: readonly ProductPart[], places: readonly number[]): boolean {
  return parts.some(({ automaton, match }, at) => {
    const place = places[at] ?? DEAD;
    if (match === "wanted") return place === DEAD;
    return match === "unwanted" && place !== DEAD && matchesEverything(automaton, place);
  });
}

function matchesEverything(automaton: readonly AutomatonState[], place: number): boolean {
  const { accepts, steps } = automaton[place] ?? { accepts: false, steps: [] };
  const [only] = steps;
  return accepts && steps.length === 1 && only?.to === place && only.ranges.length === ALL_CODES.length
    ? only.ranges.every(([low, high], at) => low === ALL_CODES[at]?.[0] && high === ALL_CODES[at]?.[1])
    : false;
}

/** Returns the targets of each character from the given places, as ranges of characters with equal targets. */
function leaving(
  parts: readonly ProductPart[],
  places: readonly number[],
  budget: WorkBudget,
): readonly { readonly range: CodeRange; readonly places: readonly number[] }[] {
  const events: { readonly at: number; readonly part: number; readonly to: number }[] = [];
  for (const [part, { automaton }] of parts.entries()) {
    for (const { ranges, to } of automaton[places[part] ?? DEAD]?.steps ?? [])
      for (const [low, high] of ranges) events.push({ at: low, part, to }, { at: high + 1, part, to: DEAD });
  }
  if (!budget.spend(1 + (events.length * parts.length) / 2)) throw new UnsupportedPattern();
  // Where one range ends and the next begins, the end sorts first.
  events.sort((a, b) => a.at - b.at || a.to - b.to);
  const found: { range: CodeRange; places: readonly number[] }[] = [];
  const now = parts.map(() => DEAD);
  for (const [index, { at, part, to }] of events.entries()) {
    now[part] = to;
    const until = events[index + 1]?.at ?? at;
    if (until > at && now.some((place) => place !== DEAD)) found.push({ range: [at, until - 1], places: [...now] });
  }
  return found;
}

export function automatonOfTexts(texts: readonly string[], budget: WorkBudget): readonly AutomatonState[] {
  const nodes: { accepts: boolean; readonly next: Map<string, number> }[] = [{ accepts: false, next: new Map() }];
  for (const text of texts) {
    if (!budget.spend(1 + text.length / 2)) throw new UnsupportedPattern();
    let at = 0;
    for (const char of text) {
      const next = nodes[at]?.next;
      const known = next?.get(char);
      if (known === undefined) next?.set(char, nodes.push({ accepts: false, next: new Map() }) - 1);
      at = known ?? nodes.length - 1;
    }
    const last = nodes[at];
    if (last !== undefined) last.accepts = true;
  }
  return nodes.map(({ accepts, next }) => ({
    accepts,
    steps: [...next].map(([char, to]) => {
      const code = char.codePointAt(0) ?? 0;
      return { ranges: [[code, code]] as const, to };
    }),
  }));
}

export function automatonOfLength(min: number, max: number | undefined): readonly AutomatonState[] {
  const last = max ?? min;
  return Array.from({ length: last + 1 }, (_, length) => ({
    accepts: length >= min,
    steps:
      length < last
        ? [{ ranges: ALL_CODES, to: length + 1 }]
        : max === undefined
          ? [{ ranges: ALL_CODES, to: length }]
          : [],
  }));
}

export function matchesText(automaton: readonly AutomatonState[], text: string): boolean {
  let at: number | undefined = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    const steps: AutomatonState["steps"] = automaton[at ?? DEAD]?.steps ?? [];
    at = steps.find(({ ranges }) => ranges.some(([low, high]) => low <= code && code <= high))?.to;
    if (at === undefined) return false;
  }
  return automaton[at ?? DEAD]?.accepts === true;
}
