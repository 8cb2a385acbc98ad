import { expect, test } from "vitest";
import { perTryTimeoutMs } from "../../../../../gateway/upstream/call/timeouts.ts";
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

test("no limit on the way to the first delta is above that on the whole answer", () => {
  const { perTry, pendingMs, acceptMs, maxReplyDurationMs, maxStreamDurationMs } = DEFAULT_TIMEOUTS;
  expect(pendingMs + acceptMs + perTry.maxMs).toBeLessThan(maxReplyDurationMs);
  expect(maxReplyDurationMs).toBeLessThan(maxStreamDurationMs);
});
