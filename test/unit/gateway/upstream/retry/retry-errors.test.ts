import { expect, test } from "vitest";
import { spreadRetryAfterMs } from "../../../../../gateway/upstream/retry/retry-errors.ts";

test.each([
  [undefined, 2_000],
  [10_000, 10_000],
  [0, 1_250],
  [86_400_000, 50_000],
])("room in %s ms: come back in %i ms, a fifth sooner or later", (expectedMs, comeBack) => {
  for (const [draw, share] of [
    [0, 0.8],
    [0.5, 1],
    [0.75, 1.1],
  ] as const)
    expect(spreadRetryAfterMs(expectedMs, () => draw)).toBeCloseTo(comeBack * share, 6);
});
