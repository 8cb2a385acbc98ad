/*
 * When the process itself is in trouble, as Envoy's overload manager sees it: monitors say how near a resource is to
 * its end, and actions switch on where one of their triggers is reached.
 */

/** The resources of the process that are watched, under Envoy's names where it has the thing. */
export const RESOURCE_MONITORS = ["eventLoopDelay", "fixedHeap", "processMemory"] as const;
/** One of `RESOURCE_MONITORS`. */
export type ResourceMonitor = (typeof RESOURCE_MONITORS)[number];

/**
 * The actions that keep the process alive, the milder first. `releaseKeptAnswers` drops answers that are kept so that
 * another engine could continue them, the largest first, and keeps no further ones; `stopAcceptingRequests` is Envoy's.
 */
export const OVERLOAD_ACTIONS = ["releaseKeptAnswers", "stopAcceptingRequests"] as const;
/** One of `OVERLOAD_ACTIONS`. */
export type OverloadAction = (typeof OVERLOAD_ACTIONS)[number];

/** The used share of each resource, from 0 (all of it is free) to 1 (none is); a delay beyond its limit is above 1. */
export type Pressures = Readonly<Record<ResourceMonitor, number>>;

/** The pressure from which on each resource triggers an action; null where it never does. */
export type Triggers = Readonly<Record<ResourceMonitor, number | null>>;

/** The triggers of each action. A late event loop gains nothing from memory that is released. */
export const TRIGGERS: Readonly<Record<OverloadAction, Triggers>> = {
  releaseKeptAnswers: { eventLoopDelay: null, fixedHeap: 0.85, processMemory: 0.85 },
  stopAcceptingRequests: { eventLoopDelay: 0.95, fixedHeap: 0.95, processMemory: 0.95 },
};

/**
 * The state of an action. `over` and `under` are how many looks in a row found a trigger reached, or found all of them
 * left behind.
 */
export type ActionState = { readonly active: boolean; readonly over: number; readonly under: number };

/** The state of an action that was never triggered. */
export const RESTING: ActionState = { active: false, over: 0, under: 0 };

/**
 * The number of looks in a row at which a trigger has to be reached before its action starts: one slow turn of the
 * event loop, or one full heap before its collection, is no trouble yet.
 */
const LOOKS_TO_START = 2;
/**
 * The number of good looks in a row that end an action: one is not enough, or whatever is let in again brings it back.
 */
const LOOKS_TO_END = 4;
/** The distance below its threshold at which a pressure counts as left behind. */
const HYSTERESIS = 0.1;

/**
 * Returns the state of an action after one more look: it starts after two looks in a row at which a trigger is reached,
 * and ends after four at which all pressures are 0.1 below theirs.
 */
export function afterLook({ active, over, under }: ActionState, triggers: Triggers, pressures: Pressures): ActionState {
  const reached = (below: number) =>
    RESOURCE_MONITORS.some((monitor) => {
      const threshold = triggers[monitor];
      return threshold !== null && pressures[monitor] >= threshold - below;
    });
  const next = { over: reached(0) ? over + 1 : 0, under: reached(HYSTERESIS) ? 0 : under + 1 };
  return { ...next, active: active ? next.under < LOOKS_TO_END : next.over >= LOOKS_TO_START };
}
