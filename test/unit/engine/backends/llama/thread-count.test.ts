import { expect, test } from "vitest";
import { threadCount } from "../../../../../engine/backends/llama/runtime/llama-runtime.ts";
import { ThreadFit } from "../../../../../engine/backends/llama/runtime/thread-fit.ts";

test.each([
  ["auto", 98_000_000, 1, 1],
  ["auto", 98_000_000, 2, 2],
  ["auto", 98_000_000, 4, 3],
  ["auto", 98_000_000, 16, 15],
  ["auto", 5_000_000, 16, 1],
  [7, 5_000_000, 2, 7],
] as const)("threads %s of a file of %i bytes on %i cores: %i", (threads, bytes, cores, count) => {
  expect(threadCount(threads, bytes, cores)).toBe(count);
});

/** Takes steps of 100 ms for so long, of which the threads get so many cores. */
function compute(fit: ThreadFit, seconds: number, cores: number): readonly number[] {
  const counts: number[] = [];
  for (let step = 0; step < 10 * seconds; step += 1)
    if (fit.observe(100, 100 * Math.min(cores, fit.count))) counts.push(fit.count);
  return counts;
}

test("threads that get their cores stay", () => {
  const fit = new ThreadFit(8);
  expect(compute(fit, 600, 8)).toEqual([]);
  expect(compute(fit, 600, 4)).toEqual([]);
});

test("threads that wait for cores become as many as there are cores, and one at least", () => {
  expect(compute(new ThreadFit(8), 4, 2.2)).toEqual([2]);
  expect(compute(new ThreadFit(2), 4, 0.7)).toEqual([1]);
  expect(compute(new ThreadFit(2), 4, 0.1)).toEqual([1]);
  expect(compute(new ThreadFit(1), 4, 0.1)).toEqual([]);
});

test("all threads are tried again, and ever later while they do not get their cores", () => {
  const fit = new ThreadFit(8);
  expect(compute(fit, 62, 2)).toEqual([2, 8]);
  expect(compute(fit, 100, 2)).toEqual([2]);
  expect(compute(fit, 30, 2)).toEqual([8, 2]);
  expect(compute(fit, 300, 8)).toEqual([8]);
});
