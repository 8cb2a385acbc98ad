import { expect, test } from "vitest";
import { threadCount } from "../../../../../engine/backends/llama/runtime/llama-runtime.ts";

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
