/*
 * Overload of the process, after Envoy's overload manager: monitors report the pressure on resources, and actions start
 * when a trigger is reached.
 */

/** The monitored resources of the process, under Envoy's names where they exist. */
export const RESOURCE_MONITORS = [
  "eventLoopDelay",
  "eventLoopUtilization",
  "fixedHeap",
  "processMemory",
  "inflightBodyBytes",
] as const;
export type ResourceMonitor = (typeof RESOURCE_MONITORS)[number];

/**
 * The actions, mildest first; all but three are Envoy's. `stopKeepingAnswers` keeps no further answers for continuation
 * on another engine, and `releaseKeptAnswers` drops kept ones, largest first; `rejectNonCritical` refuses token counts,
 * and keys of low priority.
 */
export const OVERLOAD_ACTIONS = [
  "stopKeepingAnswers",
  "disableHttpKeepalive",
  "rejectNonCritical",
  "releaseKeptAnswers",
  "stopAcceptingRequests",
] as const;
export type OverloadAction = (typeof OVERLOAD_ACTIONS)[number];

/** Used share of each resource, from 0 to 1; a delay beyond its limit is above 1. */
export type Pressures = Readonly<Record<ResourceMonitor, number>>;

/** Pressure of each resource that triggers an action; null: never. */
export type Triggers = Readonly<Record<ResourceMonitor, number | null>>;

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
