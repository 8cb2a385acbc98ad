import { describe, expect, test } from "vitest";
import {
  afterLook,
  type Pressures,
  RESOURCE_MONITORS,
  RESTING,
  type Triggers,
} from "../../../../gateway/overload/overload-action.ts";

const NEVER: Triggers = {
  eventLoopDelay: null,
  fixedHeap: null,
  processMemory: null,
};
const CALM: Pressures = {
  eventLoopDelay: 0,
  fixedHeap: 0,
  processMemory: 0,
};

/** Whether the action is active after each check, for a trigger at 0.8 on the heap. */
function activity(heap: readonly number[]): boolean[] {
  let state = RESTING;
  return heap.map((fixedHeap) => {
    state = afterLook(state, { ...NEVER, fixedHeap: 0.8 }, { ...CALM, fixedHeap });
    return state.active;
  });
}

describe("an action", () => {
  test("starts with the second look in a row that finds its trigger reached", () => {
    expect(activity([0.79, 0.8, 0.8, 0.8])).toEqual([false, false, true, true]);
    expect(activity([0.9, 0.7, 0.9, 0.7])).toEqual([false, false, false, false]);
  });

  test("ends with the fourth look in a row well below it", () => {
    expect(activity([1, 1, 0.69, 0.69, 0.69, 0.69])).toEqual([false, true, true, true, true, false]);
  });

  test("continues while the pressure stays just below the trigger, or returns", () => {
    expect(activity([1, 1, ...Array<number>(20).fill(0.75)]).slice(1)).not.toContain(false);
    expect(activity([1, 1, 0.1, 0.1, 0.1, 0.75, 0.1, 0.1, 0.1]).slice(1)).not.toContain(false);
  });

  test.each(RESOURCE_MONITORS)("listens to %s where it has a trigger on it, and only then", (monitor) => {
    const pressures = { ...CALM, [monitor]: 2 };
    const twice = (triggers: Triggers) =>
      afterLook(afterLook(RESTING, triggers, pressures), triggers, pressures).active;
    expect(twice({ ...NEVER, [monitor]: 1 })).toBe(true);
    expect(twice({ ...NEVER, [monitor]: null })).toBe(false);
  });

  test("does not end while any of its triggers is reached", () => {
    const triggers = { ...NEVER, fixedHeap: 0.5, eventLoopDelay: 0.5 };
    let state = RESTING;
    for (const pressures of [{ fixedHeap: 1 }, { fixedHeap: 1 }, ...Array(6).fill({ eventLoopDelay: 1 })])
      state = afterLook(state, triggers, { ...CALM, ...pressures });
    expect(state.active).toBe(true);
  });
});
