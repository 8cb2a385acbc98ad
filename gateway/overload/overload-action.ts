/*
 * Overload of the process, after Envoy's overload manager: monitors report the pressure on resources, and actions start
 * when a trigger is reached.
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

/** Used share of each resource, from 0 to 1; a delay beyond its limit is above 1. */
export type Pressures = Readonly<Record<ResourceMonitor, number>>;

/** Pressure of each resource that triggers an action; null: never. */
export type Triggers = Readonly<Record<ResourceMonitor, number | null>>;

/** The triggers of each action. A late event loop gains nothing from memory that is released. */
export const TRIGGERS: Readonly<Record<OverloadAction, Triggers>> = {
  releaseKeptAnswers: { eventLoopDelay: null, fixedHeap: 0.85, processMemory: 0.85 },
  stopAcceptingRequests: { eventLoopDelay: 0.95, fixedHeap: 0.95, processMemory: 0.95 },
};

/**
 * State of an action. `over` and `under` count consecutive checks with a reached trigger, or with all pressures below.
 */
export type ActionState = { readonly active: boolean; readonly over: number; readonly under: number };

/** State of an action that was never triggered. */
export const RESTING: ActionState = { active: false, over: 0, under: 0 };

/**
 * Consecutive checks with a reached trigger before an action starts: one slow turn of the event loop, or one full heap
 * before its collection, is not an overload.
 */
const LOOKS_TO_START = 2;
/** Consecutive good checks before an action ends: after one, the readmitted load may trigger it again. */
const LOOKS_TO_END = 4;
/** Distance below its threshold at which a pressure counts as normal. */
const HYSTERESIS = 0.1;

/**
 * Returns the state of an action after one more check: it starts after two consecutive checks with a reached trigger,
 * and ends after four with all pressures 0.1 below theirs.
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
