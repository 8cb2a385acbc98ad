import { expect, test } from "vitest";
import { sleep } from "../../../../../deploy/runtime/time/abort.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

function asleep(ms: number, signal: AbortSignal) {
  const clock = new VirtualClock();
  const state = { clock, awake: false };
  void sleep(clock, ms, signal).then(() => {
    state.awake = true;
  });
  return state;
}

test("sleep ends when its time is over, and not before", async () => {
  const { signal } = new AbortController();
  const state = asleep(100, signal);
  await state.clock.advance(99);
  expect(state.awake).toBe(false);
  await state.clock.advance(1);
  expect(state.awake).toBe(true);
  expect(signal.aborted).toBe(false);
});

test("sleep ends at once when its signal is aborted, meanwhile or before", async () => {
  const leave = new AbortController();
  const state = asleep(100, leave.signal);
  await state.clock.advance(1);
  leave.abort();
  await state.clock.advance(0);
  expect(state.awake).toBe(true);
  const late = asleep(100, AbortSignal.abort());
  await late.clock.advance(0);
  expect(late.awake).toBe(true);
});
