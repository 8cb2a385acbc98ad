import type { CodeRange } from "../../gbnf/gbnf.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { ALL_CODES, type Expression, UnsupportedPattern } from "./regular-expression.ts";

/**
 * Numbers the states of an automaton in the order in which they are found. A state is known by its places: the nodes of an
 * expression that a text may have reached, or the state that each part of a product is in.
 */
class FoundStates {
  /** The places of each state. Iteration includes states added meanwhile. */
  readonly places: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #maxStates: number;

  constructor(maxStates: number) {
    this.#maxStates = maxStates;
  }

  numberOf(places: readonly number[]): number {
    const key = places.join();
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.places.length === this.#maxStates) throw new UnsupportedPattern();
    this.#numbers.set(key, this.places.length);
    return this.places.push(places) - 1;
  }
}

/**
 * A state of a deterministic automaton, which is a list of them, beginning with the first. No two steps of a state share a
 * character, so a text has one path; a character without a step ends it without a match.
 *
 *     ^a*ab$    0: [a] to 1    1: [a] to 1, [b] to 2    2: accepts
 */
export type AutomatonState = {
  readonly accepts: boolean;
  readonly steps: readonly { readonly ranges: readonly CodeRange[]; readonly to: number }[];
};

/** The maximum states: each becomes a rule, and an expression of n nodes may need 2 ^ n of them. */
const MAX_STATES = 1_024;
/** The maximum nodes of an expression with its counts expanded. */
const MAX_NODES = 4_096;
const PLACES_PER_WORK = 2;

/**
 * A node of the expression as a graph (Thompson): `set` reads one character, `split` goes to several nodes without reading,
 * `end` matches where the text ends, `any` whatever follows. `to` is a node's index.
 */
type Node =
  | { readonly kind: "set"; readonly ranges: readonly CodeRange[]; readonly to: number }
  | { readonly kind: "split"; readonly to: number[] }
  | { readonly kind: "end" | "any" };

const END = 0;
/** Once here, all texts match: the other places need no more following, so `^ab` has three states for any length. */
const ANY = 1;

/**
 * Returns the automaton of the texts that an expression without anchors matches as a whole, by the construction of
 * subsets: a state is the set of nodes that a text may be at. Throws `UnsupportedPattern` for too many states, or beyond
 * `budget`.
 */
export function automatonOf(expression: Expression, budget: WorkBudget): readonly AutomatonState[] {
  const nodes: Node[] = [{ kind: "end" }, { kind: "any" }];
  const start = placeOf(nodes, expression, END, budget);
  const found = new FoundStates(MAX_STATES);
  found.numberOf(reachable(nodes, [start], budget));
  const states: AutomatonState[] = [];
  // The loop also reaches states found meanwhile.
  for (const places of found.places) {
    const accepts = places.includes(END) || places.includes(ANY);
    const ways = leaving(nodes, places, budget).map(({ range, targets }) => {
      const behind = reachable(nodes, targets, budget);
      pay(budget, behind.length / PLACES_PER_WORK);
      return { range, to: found.numberOf(behind) };
    });
    states.push({ accepts, steps: stepsOf(ways) });
  }
  return states;
}

/** Joins the ranges that lead to one state. */
function stepsOf(ways: readonly { readonly range: CodeRange; readonly to: number }[]): AutomatonState["steps"] {
  const steps = new Map<number, CodeRange[]>();
  for (const { range, to } of ways) {
    const ranges = steps.get(to);
    if (ranges === undefined) steps.set(to, [range]);
    else ranges.push(range);
  }
  return [...steps].map(([to, ranges]) => ({ to, ranges }));
}

function pay(budget: WorkBudget, places: number): void {
  if (!budget.spend(places)) throw new UnsupportedPattern();
}

/**
 * Adds the nodes of an expression that is followed by the node `next`, and returns its first one. Counts are written out:
 * `a{2,3}` is a, a, and a split between `next` and a third a. Each expanded part is charged, even one without nodes, so
 * that hostile counts are bounded.
 */
function placeOf(nodes: Node[], expression: Expression, next: number, budget: WorkBudget): number {
  pay(budget, 1 / PLACES_PER_WORK);
  const add = (node: Node): number => {
    if (nodes.length === MAX_NODES) throw new UnsupportedPattern();
    return nodes.push(node) - 1;
  };
  switch (expression.kind) {
    case "set":
      return add({ kind: "set", ranges: expression.ranges, to: next });
    case "sequence":
      return expression.parts.reduceRight((behind, part) => placeOf(nodes, part, behind, budget), next);
    case "choice":
      return add({ kind: "split", to: expression.options.map((option) => placeOf(nodes, option, next, budget)) });
    case "repeat": {
      const { part, min, max } = expression;
      if (max !== undefined && max < min) throw new UnsupportedPattern();
      if (max === undefined && min === 0 && next === END && part.kind === "set" && part.ranges === ALL_CODES)
        return ANY;
      let place = next;
      if (max === undefined) {
        const again: Extract<Node, { kind: "split" }> = { kind: "split", to: [next] };
        place = add(again);
        again.to.push(placeOf(nodes, part, place, budget));
      }
      for (let count = min; count < (max ?? min); count += 1)
        place = add({ kind: "split", to: [next, placeOf(nodes, part, place, budget)] });
      for (let count = 0; count < min; count += 1) place = placeOf(nodes, part, place, budget);
      return place;
    }
    default:
      throw new UnsupportedPattern();
  }
}

/** Nodes that read a character or end the text; if `any` is among them, it is the only one. */
function reachable(nodes: readonly Node[], from: readonly number[], budget: WorkBudget): readonly number[] {
  const seen = new Set<number>();
  const found: number[] = [];
  const todo = [...from];
  for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
    if (seen.has(place)) continue;
    seen.add(place);
    const node = nodes[place];
    if (node?.kind === "any") return [ANY];
    if (node?.kind === "split") for (const to of node.to) todo.push(to);
    else found.push(place);
    pay(budget, 1);
  }
  return found.sort((a, b) => a - b);
}

/**
 * Returns the characters that lead out of a set of nodes, as disjoint ranges with the nodes that each leads to. It sweeps
 * over the ends of all ranges: at [a-c] to 1 and [b-d] to 2, `a` leads to 1, `b` and `c` to both, `d` to 2.
 */
function leaving(
  nodes: readonly Node[],
  places: readonly number[],
  budget: WorkBudget,
): readonly { readonly range: CodeRange; readonly targets: readonly number[] }[] {
  if (places.includes(ANY)) return ALL_CODES.map((range) => ({ range, targets: [ANY] }));
  const events: { readonly at: number; readonly target: number; readonly enters: boolean }[] = [];
  for (const place of places) {
    const node = nodes[place];
    if (node?.kind !== "set") continue;
    for (const [low, high] of node.ranges)
      events.push({ at: low, target: node.to, enters: true }, { at: high + 1, target: node.to, enters: false });
  }
  pay(budget, events.length);
  events.sort((a, b) => a.at - b.at);
  const found: { range: CodeRange; targets: readonly number[] }[] = [];
  /** The targets of the ranges that the sweep is inside of, with the number of those ranges. */
  const inside = new Map<number, number>();
  for (const [index, { at, target, enters }] of events.entries()) {
    const count = (inside.get(target) ?? 0) + (enters ? 1 : -1);
    if (count === 0) inside.delete(target);
    else inside.set(target, count);
    const until = events[index + 1]?.at ?? at;
    if (until === at || inside.size === 0) continue;
    pay(budget, inside.size);
    found.push({ range: [at, until - 1], targets: [...inside.keys()] });
  }
  return found;
}

/** An automaton and its use in a product: texts must match, must not match, or the match is reported. */
export type ProductPart = {
  readonly automaton: readonly AutomatonState[];
  readonly match: "wanted" | "unwanted" | "reported";
};

/** `matches`: for each reported part, whether the text so far matches it. */
type ProductState = AutomatonState & {
  readonly matches: readonly boolean[];
};

/** The place of a part whose text can match no more. */
const DEAD = -1;
const EVERY_TEXT: readonly AutomatonState[] = [{ accepts: true, steps: [{ ranges: ALL_CODES, to: 0 }] }];

/**
 * Returns the automaton of the texts that all wanted parts and no unwanted one match. Its states are tuples, one state of
 * each part, followed in step. An unwanted part that is dead excludes nothing more, a wanted one ends the text.
 *
 *     wanted [ab]{1,2}, unwanted "ab"    0: [a] to 1, [b] to 2      1 (behind a): [a] to 3, [b] to 4
 *                                        2 (behind b): [a-b] to 3   3: accepts   4 (ab): accepts nothing
 *
 * Throws `UnsupportedPattern` beyond the limits.
 */
export function productOf(
  parts: readonly ProductPart[],
  maxStates: number,
  budget: WorkBudget,
): readonly ProductState[] {
  // Without a wanted part the product would have no characters to go on with.
  const isBounded = parts.some(({ match }) => match === "wanted");
  const all: readonly ProductPart[] = isBounded ? parts : [{ automaton: EVERY_TEXT, match: "wanted" }, ...parts];
  const found = new FoundStates(maxStates);
  found.numberOf(all.map(() => 0));
  const states: ProductState[] = [];
  // The loop also reaches states found meanwhile.
  for (const places of found.places) {
    const ways = leavingAll(all, places, budget).flatMap(({ range, places: next }) =>
      isLost(all, next) ? [] : [{ range, to: found.numberOf(next) }],
    );
    const isMatched = (at: number) => all[at]?.automaton[places[at] ?? DEAD]?.accepts === true;
    states.push({
      accepts: all.every(({ match }, at) => match === "reported" || isMatched(at) === (match === "wanted")),
      matches: all.flatMap(({ match }, at) => (match === "reported" ? [isMatched(at)] : [])),
      steps: stepsOf(ways),
    });
  }
  return states;
}

/** Returns whether no text from here can be in the product; such states are left out. */
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
function leavingAll(
  parts: readonly ProductPart[],
  places: readonly number[],
  budget: WorkBudget,
): readonly { readonly range: CodeRange; readonly places: readonly number[] }[] {
  const events: { readonly at: number; readonly part: number; readonly to: number }[] = [];
  for (const [part, { automaton }] of parts.entries()) {
    for (const { ranges, to } of automaton[places[part] ?? DEAD]?.steps ?? [])
      for (const [low, high] of ranges) events.push({ at: low, part, to }, { at: high + 1, part, to: DEAD });
  }
  pay(budget, 1 + (events.length * parts.length) / 2);
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

/** Returns the tree of the texts: "an" and "at" share the state behind "a". */
export function automatonOfTexts(texts: readonly string[], budget: WorkBudget): readonly AutomatonState[] {
  const nodes: { accepts: boolean; readonly next: Map<string, number> }[] = [{ accepts: false, next: new Map() }];
  for (const text of texts) {
    pay(budget, 1 + text.length / 2);
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

/** Returns the automaton of the lengths from `min` to `max` characters: a state for each, the last one for all beyond. */
export function automatonOfLength(min: number, max: number | undefined): readonly AutomatonState[] {
  const last = max ?? min;
  return Array.from({ length: last + 1 }, (_, length) => ({
    accepts: length >= min,
    steps: length < last || max === undefined ? [{ ranges: ALL_CODES, to: Math.min(length + 1, last) }] : [],
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
