import { expect, test } from "vitest";
import { RecheckTimer } from "../../../../../gateway/upstream/admission/recheck-timer.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** A timer, the moments at which it fired, and the number of clock timers that it took. */
function timing() {
  const clock = new VirtualClock();
  const due: number[] = [];
  let taken = 0;
  const after = (ms: number, run: () => void) => {
    taken += 1;
    return clock.after(ms, run);
  };
  return { clock, due, taken: () => taken, timer: new RecheckTimer({ after }, () => due.push(clock.nowMs())) };
}

test("fires once, however often it was armed, and can then be armed again", async () => {
  const { clock, due, timer } = timing();
  timer.arm(100);
  timer.arm(50);
  await clock.advance(200);
  expect(due).toEqual([100]);
  timer.arm(50);
  await clock.advance(200);
  expect(due).toEqual([100, 250]);
});

test("armed for now fires at once and only once, replacing a later deadline", async () => {
  const { clock, due, taken, timer } = timing();
  timer.arm(100);
  timer.armNow();
  timer.armNow();
  timer.arm(0);
  await clock.advance(200);
  expect([due, taken()]).toEqual([[0], 2]);
});

test("disarmed does not fire until it is armed again", async () => {
  const { clock, due, timer } = timing();
  timer.armNow();
  timer.disarm();
  await clock.advance(100);
  expect(due).toEqual([]);
  timer.armNow();
  await clock.advance(0);
  expect(due).toEqual([100]);
});
