import { expect, test } from "vitest";
import { acceptTimeoutMs, perTryTimeoutMs } from "../../../../../gateway/upstream/call/timeouts.ts";
import { DEFAULT_TIMEOUTS } from "../../../../support/gateway/default-settings.ts";

test.each([
  [0, 30_000],
  [2_000, 31_000],
  [100_000, 80_000],
  [1_140_000, 600_000],
  [5_000_000, 600_000],
  [-1, 30_000],
])("a prompt of %i tokens has %i ms to its first delta", (inputTokens, expected) => {
  expect(perTryTimeoutMs(inputTokens, DEFAULT_TIMEOUTS.perTry)).toBe(expected);
});

test.each([
  [0, 5_000],
  [512 * 1024, 5_500],
  [32 * 1024 * 1024, 37_000],
])("a request of %i bytes has %i ms until it is handed over, and again until it is taken", (bytes, expected) => {
  expect(acceptTimeoutMs(bytes, DEFAULT_TIMEOUTS)).toBe(expected);
});

test("no limit on the way to the first delta is above that on the whole answer", () => {
  const { perTry, pendingMs, maxReplyDurationMs, maxStreamDurationMs } = DEFAULT_TIMEOUTS;
  const acceptMs = acceptTimeoutMs(32 * 1024 * 1024, DEFAULT_TIMEOUTS);
  expect(pendingMs + 2 * acceptMs + perTry.maxMs).toBeLessThan(maxReplyDurationMs);
  expect(maxReplyDurationMs).toBeLessThan(maxStreamDurationMs);
});
