import { type Candidates, without } from "./candidates.ts";
import type { Level } from "./endpoint-levels.ts";

/** The reason why there is no pick. Waiting helps where it is `all_full`, and with none of the others. */
export type NoPick = "no_endpoints" | "none_available" | "all_tried" | "all_full";

/** The result of a pick: what the policy gave, or why there is nothing. */
export type Choice<P> =
  | {
      /** What the policy gave for the endpoint that it picked. */
      readonly pick: P;
      /** Whether the endpoint was picked without a look at its health. */
      readonly panic: boolean;
    }
  | { readonly none: NoPick };

/** What picking one endpoint goes by; `P` is what the policy gives for one. */
export type PickOptions<P> = {
  /** The addresses of the endpoints that have had their try at the request. */
  readonly tried: ReadonlySet<string>;
  /** The load-balancing policy, which picks from candidates that are never none; undefined when none suits it. */
  readonly policy: (candidates: Candidates) => P | undefined;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/**
 * Makes one pick: draws the priority by its load, and lets the policy pick among what has room there. Where all
 * endpoints of a priority were tried or are full, the other priorities follow in their order: any endpoint is better
 * than a failed request. The cost is the policy's; only a request that has been tried before also costs a pass over the
 * endpoints with room.
 */
export function pickFrom<P>(levels: readonly Level[], { tried, policy, random }: PickOptions<P>): Choice<P> {
  const first = drawLevel(levels, random);
  for (const index of [first, ...levels.keys()]) {
    const level = levels[index];
    if (!level || level.roomy.all.length === 0) continue;
    const candidates = without(level.roomy, tried);
    const pick = candidates.all.length > 0 ? policy(candidates) : undefined;
    if (pick) return { pick, panic: level.panic };
  }
  return { none: noPick(levels, tried) };
}

/** Returns why there is no pick, where no endpoint that has room and was not tried suits anybody. */
export function noPick(levels: readonly Level[], tried: ReadonlySet<string>): NoPick {
  if (levels.length === 0) return "no_endpoints";
  const some = levels.filter(({ usable }) => usable.all.length > 0);
  if (some.length === 0) return "none_available";
  // The first one that was not tried ends the search.
  return some.some(({ usable }) => usable.all.some(({ address }) => !tried.has(address))) ? "all_full" : "all_tried";
}

/** Draws the index of a level, as often as its load says. */
function drawLevel(levels: readonly Level[], random: () => number): number {
  // One level needs no draw.
  if (levels.length <= 1) return 0;
  let left = random() * 100;
  for (const [index, { loadPercent }] of levels.entries()) {
    left -= loadPercent;
    if (left < 0) return index;
  }
  return 0;
}
