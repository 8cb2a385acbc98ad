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

test("sleep leaves neither a listener nor a timer behind", async () => {
  const clock = new VirtualClock();
  let listeners = 0;
  const leave = new AbortController();
  const { signal } = leave;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  };
  const slept = sleep(clock, 100, signal);
  expect(listeners).toBe(1);
  await clock.advance(100);
  await slept;
  expect(listeners).toBe(0);
  const woken = sleep(clock, 100, signal);
  leave.abort();
  await woken;
  clock.jump(1_000);
});
