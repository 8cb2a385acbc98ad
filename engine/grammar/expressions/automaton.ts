import type { CodeRange } from "../../gbnf/gbnf.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { ALL_CODES } from "./code-set.ts";
import { FoundStates } from "./found-states.ts";
import { type Expression, UnsupportedPattern } from "./regular-expression.ts";

export type AutomatonState = {
  readonly accepts: boolean;
  /** The steps; their ranges are disjoint. */
  readonly steps: readonly { readonly ranges: readonly CodeRange[]; readonly to: number }[];
};

const MAX_STATES = 1_024;
/** The maximum nodes of an expression with its counts expanded. */
const MAX_NODES = 4_096;
const PLACES_PER_WORK = 2;
type Node =
  | { readonly kind: "set"; readonly ranges: readonly CodeRange[]; readonly to: number }
  | { readonly kind: "split"; readonly to: number[] }
  | { readonly kind: "end" | "any" };

const END = 0;
const ANY = 1;

/**
 * The deterministic automaton of an expression without anchors. Throws `UnsupportedPattern` if it has too many states
 * or costs more than `budget`.
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
    const steps = new Map<number, CodeRange[]>();
    for (const { range, targets } of leaving(nodes, places, budget)) {
      const behind = reachable(nodes, targets, budget);
      pay(budget, behind.length / PLACES_PER_WORK);
      const to = found.numberOf(behind);
      const ranges = steps.get(to);
      if (ranges === undefined) steps.set(to, [range]);
      else ranges.push(range);
    }
    states.push({ accepts, steps: [...steps].map(([to, ranges]) => ({ to, ranges })) });
  }
  return states;
}

function pay(budget: WorkBudget, places: number): void {
  if (!budget.spend(places)) throw new UnsupportedPattern();
}

/** Each expanded part is charged, even one without nodes, so that hostile counts are bounded. */
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
