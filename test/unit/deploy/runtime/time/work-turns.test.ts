import { expect, test } from "vitest";
import { WorkTurns } from "../../../../../deploy/runtime/time/work-turns.ts";

test("a turn is over after its time, and others run before the next one begins", async () => {
  let nowMs = 0;
  let others = 0;
  const turns = new WorkTurns(10, () => nowMs);
  nowMs = 9;
  expect(turns.isOver).toBe(false);
  nowMs = 10;
  expect(turns.isOver).toBe(true);
  setImmediate(() => {
    others += 1;
  });
  await turns.next();
  expect([others, turns.isOver, turns.turns]).toEqual([1, false, 2]);
});
