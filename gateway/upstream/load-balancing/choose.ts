import { canServe, type EndpointView, isAvailable } from "./endpoint-view.ts";
import { type PrioritySettings, priorityLoads } from "./priority-levels.ts";

/** Why there is no pick. `all_full` is worth waiting for; the others are not. */
export type NoPick = "no_endpoints" | "none_available" | "all_tried" | "all_full";

export type Choice<E> =
  | {
      readonly pick: E;
      /** Its health was not looked at. */
      readonly panic: boolean;
    }
  | { readonly none: NoPick };

export type ChooseOptions<E extends EndpointView> = {
  /** Addresses that had their try at this request. */
  readonly tried: ReadonlySet<string>;
  /** Whether a cap (circuit breaker, the node's own queue, KV cache) leaves room for one more. */
  readonly hasRoom: (endpoint: E) => boolean;
  readonly priorities: PrioritySettings;
  /** The load-balancing policy: picks from a list that is never empty. */
  readonly policy: (candidates: readonly E[]) => E | undefined;
  /** Even over [0, 1). */
  readonly chance: () => number;
};

type Level<E> = {
  readonly usable: readonly E[];
  readonly loadPercent: number;
  /** Health is not looked at. */
  readonly panic: boolean;
};

/**
 * What a pick may choose from, priority by priority: the endpoints that are available or, in panic, all that would take a
 * call.
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

/**
 * One pick from a snapshot of a cluster: the priority by its load, and of what is usable there one by the policy. Where all
 * of a priority were tried or are full, the others follow in their order: any endpoint is better than a failed request.
 */
export function choose<E extends EndpointView>(endpoints: readonly E[], options: ChooseOptions<E>): Choice<E> {
  if (endpoints.length === 0) return { none: "no_endpoints" };
  const levels = usableLevels(endpoints, options.priorities);
  const first = drawLevel(
    levels.map(({ loadPercent }) => loadPercent),
    options.chance,
  );
  let none: NoPick = "none_available";
  for (const index of [first, ...levels.keys()]) {
    const { usable = [], panic = false } = levels[index] ?? {};
    const untried = usable.filter(({ address }) => !options.tried.has(address));
    const candidates = untried.filter(options.hasRoom);
    const pick = candidates.length > 0 ? options.policy(candidates) : undefined;
    if (pick) return { pick, panic };
    none = worthMore(none, untried.length > 0 ? "all_full" : usable.length > 0 ? "all_tried" : "none_available");
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

/** The index of a level, as often as its load says. */
function drawLevel(loads: readonly number[], chance: () => number): number {
  // One level needs no chance.
  if (loads.length === 1) return 0;
  let left = chance() * 100;
  for (const [index, load] of loads.entries()) {
    left -= load;
    if (left < 0) return index;
  }
  return 0;
}

const WORTH: Readonly<Record<NoPick, number>> = { no_endpoints: 0, none_available: 1, all_tried: 2, all_full: 3 };

function worthMore(a: NoPick, b: NoPick): NoPick {
  return WORTH[b] > WORTH[a] ? b : a;
}
