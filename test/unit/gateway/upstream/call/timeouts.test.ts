import { expect, test } from "vitest";
import {
  acceptTimeoutMs,
  perTryTimeoutMs,
  timeoutsOf,
  timeoutsSchema,
} from "../../../../../gateway/upstream/call/timeouts.ts";
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
])("a request of %i bytes has %i ms for its hand-over, and again for its acceptance", (bytes, expected) => {
  expect(acceptTimeoutMs(bytes, DEFAULT_TIMEOUTS)).toBe(expected);
});

test("no limit before the first delta is above that on the whole answer", () => {
  const { perTry, pendingMs, maxRequestDurationMs, maxStreamDurationMs } = DEFAULT_TIMEOUTS;
  const acceptMs = acceptTimeoutMs(32 * 1024 * 1024, DEFAULT_TIMEOUTS);
  expect(pendingMs + 2 * acceptMs + perTry.maxMs).toBeLessThan(maxRequestDurationMs);
  expect(maxRequestDurationMs).toBeLessThan(maxStreamDurationMs);
});

test.each([
  [{ perTryIdleTimeoutMs: 500 }, { connectMs: 500, acceptMs: 500, interTokenMs: 60_000 }],
  [{ perTryIdleTimeoutMs: 900_000 }, { connectMs: 2_000, acceptMs: 5_000, interTokenMs: 900_000 }],
  [{ requestTimeoutMs: 3_000 }, { requestHeadersTimeoutMs: 3_000, clientWriteStallMs: 3_000 }],
  [{ requestTimeoutMs: 600_000 }, { requestHeadersTimeoutMs: 10_000, clientWriteStallMs: 30_000 }],
  [{ keepAliveIntervalMs: 50 }, { headerCommitMs: 40 }],
])("limits without configuration follow the configured ones: %j", (configured, derived) => {
  expect(timeoutsOf(timeoutsSchema.parse(configured))).toMatchObject(derived);
});

test("a longer idle limit extends the limit on the first delta", () => {
  const { perTry } = timeoutsOf(timeoutsSchema.parse({ perTryIdleTimeoutMs: 900_000 }));
  expect(perTryTimeoutMs(0, perTry)).toBe(900_000);
});
