import { canServe, type EndpointView, isAvailable } from "./endpoint-view.ts";
import { type PrioritySettings, priorityLoads } from "./priority-levels.ts";

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
export type PickOptions<E extends EndpointView, P> = {
  /** The addresses of the endpoints that have had their try at the request. */
  readonly tried: ReadonlySet<string>;
  /**
   * The load-balancing policy, which picks from a list that is never empty; it returns undefined when none suits it.
   */
  readonly policy: (candidates: readonly E[]) => P | undefined;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/** What choosing one endpoint from a snapshot goes by; `P` is what the policy gives for one. */
export type ChooseOptions<E extends EndpointView, P> = PickOptions<E, P> & {
  /**
   * Whether all caps (circuit breaker, the node's own queue, KV cache) leave the endpoint room for one more request.
   */
  readonly hasRoom: (endpoint: E) => boolean;
  /** The settings on how requests are spread over priorities. */
  readonly priorities: PrioritySettings;
};

/** One priority of a snapshot: its endpoints that a pick may choose, and its share of the requests in percent. */
export type Level<E> = {
  /** The endpoints of the level that a pick may choose. */
  readonly usable: readonly E[];
  /** The share of the requests that the level gets, in whole percent. */
  readonly loadPercent: number;
  /** Whether the health of the level's endpoints is not looked at. */
  readonly panic: boolean;
};

/** One priority of a snapshot with those of its usable endpoints that have room for one more request. */
export type LevelWithRoom<E> = Level<E> & { readonly roomy: readonly E[] };

/**
 * Returns what a pick may choose from, by priority, the first one first: the endpoints that are available or, in panic,
 * all that would take a call.
 */
export function usableLevels<E extends EndpointView>(
  endpoints: readonly E[],
  priorities: PrioritySettings,
): readonly Level<E>[] {
  const levels = byPriority(endpoints);
  const loads = priorityLoads(
    levels.map((level) => ({ available: level.filter(isAvailable).length, total: level.length })),
    priorities,
  );
  return loads.map((load, index) => ({
    ...load,
    usable: (levels[index] ?? []).filter(load.panic ? canServe : isAvailable),
  }));
}

/** Finds out which endpoints of a snapshot have room for one more request. */
export function withRoom<E extends EndpointView>(
  levels: readonly Level<E>[],
  hasRoom: (endpoint: E) => boolean,
): readonly LevelWithRoom<E>[] {
  return levels.map((level) => ({ ...level, roomy: level.usable.filter(hasRoom) }));
}

/** Makes one pick from a snapshot of a cluster, as `pickFrom` does from its levels. */
export function choose<E extends EndpointView, P>(endpoints: readonly E[], options: ChooseOptions<E, P>): Choice<P> {
  return pickFrom(withRoom(usableLevels(endpoints, options.priorities), options.hasRoom), options);
}

/**
 * Makes one pick: draws the priority by its load, and lets the policy pick among what has room there. Where all
 * endpoints of a priority were tried or are full, the other priorities follow in their order: any endpoint is better
 * than a failed request. The cost goes by the endpoints with room and those that were tried, not by how many there are.
 */
export function pickFrom<E extends EndpointView, P>(
  levels: readonly LevelWithRoom<E>[],
  { tried, policy, random }: PickOptions<E, P>,
): Choice<P> {
  if (levels.length === 0) return { none: "no_endpoints" };
  const first = drawLevel(
    levels.map(({ loadPercent }) => loadPercent),
    random,
  );
  const isUntried = ({ address }: E) => !tried.has(address);
  let none: NoPick = "none_available";
  for (const index of [first, ...levels.keys()]) {
    const { usable = [], roomy = [], panic = false } = levels[index] ?? {};
    const candidates = tried.size === 0 ? roomy : roomy.filter(isUntried);
    const pick = candidates.length > 0 ? policy(candidates) : undefined;
    if (pick) return { pick, panic };
    none = worthMore(none, usable.some(isUntried) ? "all_full" : usable.length > 0 ? "all_tried" : "none_available");
  }
  return { none };
}

function byPriority<E extends EndpointView>(endpoints: readonly E[]): E[][] {
  const levels = new Map<number, E[]>();
  for (const endpoint of endpoints) {
    const level = levels.get(endpoint.priority);
    if (level) level.push(endpoint);
    else levels.set(endpoint.priority, [endpoint]);
  }
  return [...levels].sort(([a], [b]) => a - b).map(([, level]) => level);
}

/** Draws the index of a level, as often as its load says. */
function drawLevel(loads: readonly number[], random: () => number): number {
  // One level needs no draw.
  if (loads.length === 1) return 0;
  let left = random() * 100;
  for (const [index, load] of loads.entries()) {
    left -= load;
    if (left < 0) return index;
  }
  return 0;
}

/** The rank of each reason by how much it tells a caller; where several hold, the highest is given. */
const WORTH: Readonly<Record<NoPick, number>> = { no_endpoints: 0, none_available: 1, all_tried: 2, all_full: 3 };

function worthMore(a: NoPick, b: NoPick): NoPick {
  return WORTH[b] > WORTH[a] ? b : a;
}
