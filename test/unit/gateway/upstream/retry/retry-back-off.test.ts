import { describe, expect, test } from "vitest";
import { backOffMs } from "../../../../../gateway/upstream/retry/retry-back-off.ts";
import { DEFAULT_BACK_OFF } from "../../../../support/gateway/default-settings.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

describe("the back-off", () => {
  test.each([
    [1, 50],
    [2, 150],
    [3, 350],
    [4, 500],
    [5, 500],
    [60, 500],
  ])("of retry %i is anywhere below %i ms", (retry, limitMs) => {
    expect(backOffMs(retry, DEFAULT_BACK_OFF, () => 0)).toBe(0);
    expect(backOffMs(retry, DEFAULT_BACK_OFF, () => 0.5)).toBe(limitMs / 2);
    const random = seededRandom(retry);
    const drawn = Array.from({ length: 200 }, () => backOffMs(retry, DEFAULT_BACK_OFF, random));
    expect(Math.max(...drawn)).toBeLessThan(limitMs);
    expect(Math.max(...drawn)).toBeGreaterThan(limitMs * 0.9);
    expect(Math.min(...drawn)).toBeLessThan(limitMs * 0.1);
  });
});
