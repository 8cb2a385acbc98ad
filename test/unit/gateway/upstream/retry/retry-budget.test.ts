import { describe, expect, test } from "vitest";
import { RetryBudget, type RetryPermit } from "../../../../../gateway/upstream/retry/retry-budget.ts";
import { DEFAULT_RETRY_BUDGET } from "../../../../support/gateway/default-settings.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

describe("retry budget", () => {
  test.each([
    [0, 3],
    [10, 3],
    [15, 3],
    [19, 3],
    [20, 4],
    [100, 20],
    [104, 20],
  ])("with %i running and pending requests allows %i concurrent retries", (requests, expected) => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    const permits = Array.from({ length: 50 }, () => budget.tryRetry(requests)).filter((permit) => permit);
    expect(permits).toHaveLength(expected);
    expect(budget.activeRetries).toBe(expected);
    expect(budget.overflows).toBe(50 - expected);
  });

  test("has room again when a retry ends, once for each", () => {
    const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
    const permits = Array.from({ length: 3 }, () => budget.tryRetry(0));
    permits[0]?.release();
    permits[0]?.release();
    expect(budget.tryRetry(0)).toBeDefined();
    expect(budget.tryRetry(0)).toBeUndefined();
  });

  test("is never exceeded by a new retry", () => {
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

test("a recovering request is counted, and takes no place of the retries", () => {
  const budget = new RetryBudget(DEFAULT_RETRY_BUDGET);
  const recovering = Array.from({ length: 100 }, () => budget.recover());
  expect(budget).toMatchObject({ activeContinuations: 100, activeRetries: 0, overflows: 0 });
  expect(Array.from({ length: 3 }, () => budget.tryRetry(0)).every((permit) => permit)).toBe(true);
  for (const permit of recovering) permit.release();
  recovering[0]?.release();
  expect(budget.activeContinuations).toBe(0);
});
