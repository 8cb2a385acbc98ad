import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { TurnSlices } from "../../../../../deploy/runtime/time/turn-slices.ts";

/** The clock of work that is all due at one time, however the machine holds up the test. */
const STANDS_STILL = () => 0;
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what is due at one time is done a few in each turn, in its order", async () => {
  const slices = new TurnSlices(3, STANDS_STILL);
  const done: number[] = [];
  for (let at = 0; at < 8; at += 1) slices.run(() => done.push(at));
  const counts = [done.length];
  while (done.length < 8) {
    await turn();
    counts.push(done.length);
  }
  expect(counts).toEqual([3, 6, 8]);
  expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  await turn();
  slices.run(() => done.push(8));
  expect(done.at(-1)).toBe(8);
});

test("work that takes long is done a few pieces in each turn, too", async () => {
  let nowMs = 0;
  const slices = new TurnSlices(2, () => nowMs);
  const done: number[] = [];
  for (let at = 0; at < 5; at += 1)
    slices.run(() => {
      nowMs += 100;
      done.push(at);
    });
  expect(done).toEqual([0, 1]);
  await turn();
  expect(done).toEqual([0, 1, 2, 3]);
});

test("work that asks for more work is of the same turn, however long it takes", async () => {
  let nowMs = 0;
  const slices = new TurnSlices(1, () => nowMs);
  const done: number[] = [];
  const step = () => {
    nowMs += 100;
    done.push(done.length);
    if (done.length < 3) slices.run(step);
  };
  slices.run(step);
  expect(done).toEqual([0]);
  await turn();
  expect(done).toEqual([0, 1]);
  await turn();
  expect(done).toEqual([0, 1, 2]);
});

test("work that comes alone, as most timers do, costs no turn", () => {
  let nowMs = 0;
  const slices = new TurnSlices(2, () => nowMs);
  const asked = vi.spyOn(globalThis, "setImmediate");
  onTestFinished(() => asked.mockRestore());
  let done = 0;
  for (; nowMs < 1_000; nowMs += 20) slices.run(() => (done += 1));
  expect(done).toBe(50);
  expect(asked).not.toHaveBeenCalled();
  slices.run(() => (done += 1));
  slices.run(() => (done += 1));
  expect(asked).toHaveBeenCalledOnce();
});

test("work that waits for its turn can be taken back", async () => {
  const slices = new TurnSlices(1, STANDS_STILL);
  const done: string[] = [];
  slices.run(() => done.push("first"));
  const takeBack = slices.run(() => done.push("second"));
  slices.run(() => done.push("third"));
  takeBack();
  await turn();
  await turn();
  expect(done).toEqual(["first", "third"]);
});

test("work that throws holds up nothing behind it", async () => {
  const slices = new TurnSlices(1, STANDS_STILL);
  const done: string[] = [];
  slices.run(() => done.push("first"));
  slices.run(() => done.push("second"));
  slices.run(() => done.push("third"));
  expect(() =>
    new TurnSlices().run(() => {
      throw new Error("broken");
    }),
  ).toThrow("broken");
  await turn();
  await turn();
  await turn();
  expect(done).toEqual(["first", "second", "third"]);
});

test("timers that expire together run in slices, and one that is cancelled meanwhile does not", async () => {
  let ran = 0;
  let cancelled = 0;
  const perTurn: number[] = [];
  const cancels: (() => void)[] = [];
  for (let at = 0; at < 1_000; at += 1) systemClock.after(5, () => (ran += 1));
  cancels.push(systemClock.after(5, () => (cancelled += 1)));
  // All of them are due before the loop turns again.
  for (const end = performance.now() + 20; performance.now() < end; );
  for (let before = 0; ran < 1_000; before = ran) {
    await turn();
    if (ran > 0) for (const cancel of cancels.splice(0)) cancel();
    perTurn.push(ran - before);
  }
  await turn();
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(2 * 64);
  expect(cancelled).toBe(0);
});
