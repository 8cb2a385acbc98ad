import { describe, expect, test } from "vitest";
import { RetryBudget, type RetryPermit } from "../../../../../gateway/upstream/retry/retry-budget.ts";
import { DEFAULT_RETRY_BUDGET } from "../../../../support/gateway/default-settings.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

describe("the retry budget", () => {
  test.each([
    [0, 3],
    [10, 3],
    [15, 3],
    [19, 3],
    [20, 4],
    [100, 20],
    [104, 20],
  ])("with %i requests that run or wait allows %i retries at once", (requests, expected) => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    const permits = Array.from({ length: 50 }, () => budget.tryRetry(requests)).filter((permit) => permit);
    expect(permits).toHaveLength(expected);
    expect(budget.activeRetries).toBe(expected);
    expect(budget.overflows).toBe(50 - expected);
  });

  test("has room again when a retry is over, once for each", () => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    const permits = Array.from({ length: 3 }, () => budget.tryRetry(0));
    permits[0]?.release();
    permits[0]?.release();
    expect(budget.tryRetry(0)).toBeDefined();
    expect(budget.tryRetry(0)).toBeUndefined();
  });

  test("is never exceeded by a new retry, whatever comes and goes", () => {
    const random = seededRandom(6);
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    const held: RetryPermit[] = [];
    for (let step = 0; step < 3_000; step += 1) {
      const requests = Math.floor(random() * 80);
      const before = budget.activeRetries;
      const permit = random() < 0.6 ? budget.tryRetry(requests) : undefined;
      if (permit) {
        held.push(permit);
        expect(before + 1).toBeLessThanOrEqual(Math.max(3, requests * 0.2));
      } else {
        held.shift()?.release();
      }
      expect(budget.activeRetries).toBe(held.length);
    }
  });
});

describe("going on with answers", () => {
  const taken = (take: () => RetryPermit | undefined, times: number) =>
    Array.from({ length: times }, take).filter((permit) => permit !== undefined);

  test("has a share of its own, from which it takes nothing that is the retries'", () => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    expect(taken(() => budget.tryContinue(20, 100), 100)).toHaveLength(100);
    expect(budget.activeContinuations).toBe(100);
    expect(taken(() => budget.tryRetry(100), 50)).toHaveLength(20);
  });

  test("is bounded together with the retries, and has room again when it is over", () => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    taken(() => budget.tryRetry(20), 4);
    const [first] = taken(() => budget.tryContinue(20, 30), 50);
    expect(budget.activeContinuations).toBe(2);
    expect(budget.overflows).toBe(48);
    first?.release();
    first?.release();
    expect(budget.activeContinuations).toBe(1);
    expect(budget.tryContinue(20, 30)).toBeDefined();
  });

  test("is always allowed as often as retries are", () => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    expect(taken(() => budget.tryContinue(0, 0), 10)).toHaveLength(3);
  });
});
