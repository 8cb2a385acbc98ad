import type { SeededRandom } from "../../../support/seeded-random.ts";
import { type Node, readGrammar } from "./gbnf-matcher.ts";

/** After so many characters the sampler takes the shortest way to the end. */
const ENOUGH = 400;
const MOST_REPEATS = 4;

/** Draws random texts that a grammar matches, as a model without training would write. */
export function samplerOf(grammar: string): (random: SeededRandom) => string {
  const rules = readGrammar(grammar);
  const shortest = shortestTexts(rules);
  return (random) => {
    let length = 0;
    const write = (node: Node): string => {
      switch (node.kind) {
        case "chars": {
          length += 1;
          const ranges = node.isNot ? others(node.ranges) : node.ranges;
          const [low, high] = ranges[random.below(ranges.length)] ?? [0x78, 0x78];
          // Rare characters of a wide range would outnumber the others.
          const reach = random.below(4) > 0 ? Math.min(high - low, 94) : high - low;
          return String.fromCodePoint(low + random.below(reach + 1));
        }
        case "sequence":
          return node.nodes.map(write).join("");
        case "choice": {
          const costs = node.nodes.map((each) => costOf(each, shortest));
          const least = Math.min(...costs);
          const finite = node.nodes.filter((_, i) =>
            length > ENOUGH ? costs[i] === least : costs[i] !== Number.POSITIVE_INFINITY,
          );
          const chosen = finite[random.below(finite.length)];
          return chosen === undefined ? "" : write(chosen);
        }
        case "repeat": {
          const most = Math.min(node.max, node.min + (length > ENOUGH ? 0 : MOST_REPEATS));
          const count = node.min + random.below(most - node.min + 1);
          return Array.from({ length: count }, () => write(node.node)).join("");
        }
        case "rule":
          return write(rules.get(node.name) ?? { kind: "sequence", nodes: [] });
      }
    };
    return write({ kind: "rule", name: "root" });
  };
}

/** Returns the complement of ranges. */
function others(ranges: readonly (readonly [number, number])[]): readonly (readonly [number, number])[] {
  const found: (readonly [number, number])[] = [];
  let from = 0;
  for (const [low, high] of [...ranges, [0xd800, 0xdfff] as const, [0x110000, 0x110000] as const].sort(
    (a, b) => a[0] - b[0],
  )) {
    if (low > from) found.push([from, low - 1]);
    from = Math.max(from, high + 1);
  }
  return found;
}

/** Returns the length of the shortest text of each rule, in characters. */
function shortestTexts(rules: ReadonlyMap<string, Node>): ReadonlyMap<string, number> {
  const shortest = new Map<string, number>();
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, body] of rules) {
      const cost = costOf(body, shortest);
      if (cost >= (shortest.get(name) ?? Number.POSITIVE_INFINITY)) continue;
      shortest.set(name, cost);
      changed = true;
    }
  }
  return shortest;
}

function costOf(node: Node, shortest: ReadonlyMap<string, number>): number {
  switch (node.kind) {
    case "chars":
      return 1;
    case "sequence":
      return node.nodes.reduce((sum, each) => sum + costOf(each, shortest), 0);
    case "choice":
      return Math.min(...node.nodes.map((each) => costOf(each, shortest)));
    case "repeat":
      return node.min === 0 ? 0 : node.min * costOf(node.node, shortest);
    case "rule":
      return shortest.get(node.name) ?? Number.POSITIVE_INFINITY;
  }
}
