import { expect, test } from "vitest";
import { outageRetryMs, spreadRetryAfterMs } from "../../../../../gateway/upstream/retry/retry-errors.ts";

test.each([
  [undefined, 2_000],
  [10_000, 10_000],
  [0, 1_250],
  [86_400_000, 50_000],
])("room in %s ms: retry in %i ms, a fifth sooner or later", (expectedMs, comeBack) => {
  for (const [draw, share] of [
    [0, 0.8],
    [0.5, 1],
    [0.75, 1.1],
  ] as const)
    expect(spreadRetryAfterMs(expectedMs, () => draw)).toBeCloseTo(comeBack * share, 6);
});

test("six retries at the given times span more than a minute of an outage", () => {
  expect(outageRetryMs(undefined)).toBeUndefined();
  let outageMs = 0;
  for (let retries = 0; retries < 5; retries += 1) outageMs += spreadRetryAfterMs(outageRetryMs(outageMs), () => 0);
  expect(outageMs).toBeGreaterThan(75_000);
});
