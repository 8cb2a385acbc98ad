import { expect, test } from "vitest";
import {
  acceptTimeoutMs,
  perTryTimeoutMs,
  timeoutsOf,
  timeoutsSchema,
} from "../../../../../gateway/upstream/call/timeouts.ts";
import { DEFAULT_TIMEOUTS } from "../../../../support/gateway/default-settings.ts";

test("no limit before the first delta exceeds the limit of the whole answer", () => {
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
])("limits that are not configured follow the configured ones: %j", (configured, derived) => {
  expect(timeoutsOf(timeoutsSchema.parse(configured))).toMatchObject(derived);
});

test("an endpoint with a long idle limit has as long to its first delta", () => {
  const { perTry } = timeoutsOf(timeoutsSchema.parse({ perTryIdleTimeoutMs: 900_000 }));
  expect(perTryTimeoutMs(0, perTry)).toBe(900_000);
});
