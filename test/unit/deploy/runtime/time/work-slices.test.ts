import { expect, test } from "vitest";
import { WorkSlices } from "../../../../../deploy/runtime/time/work-slices.ts";

test("a slice is over after its time, and others run before the next one begins", async () => {
  let nowMs = 0;
  let others = 0;
  const slices = new WorkSlices(10, () => nowMs);
  nowMs = 9;
  expect(slices.isOver).toBe(false);
  nowMs = 10;
  expect(slices.isOver).toBe(true);
  setImmediate(() => {
    others += 1;
  });
  await slices.next();
  expect([others, slices.isOver, slices.count]).toEqual([1, false, 2]);
});
