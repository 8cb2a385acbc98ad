import { expect, test } from "vitest";
import { RetryBudget } from "../../../../../gateway/upstream/retry/retry-budget.ts";

test.each([
  [0, 3],
  [19, 3],
  [20, 4],
  [104, 20],
])("with %i running or waiting requests, a budget of 20 %% allows %i retries at once", (requests, expected) => {
  const budget = new RetryBudget(20);
  const permits = Array.from({ length: 50 }, () => budget.tryRetry(requests)).filter((permit) => permit);
  expect([permits.length, budget.activeRetries, budget.overflows]).toEqual([expected, expected, 50 - expected]);
  permits[0]?.release();
  permits[0]?.release();
  expect([budget.tryRetry(requests) !== undefined, budget.tryRetry(requests)]).toEqual([true, undefined]);
});

test("a request that recovers from a lost endpoint is counted, but takes no share of the retries", () => {
  const budget = new RetryBudget(20);
  const recovering = Array.from({ length: 100 }, () => budget.recover());
  expect(budget).toMatchObject({ activeContinuations: 100, activeRetries: 0, overflows: 0 });
  expect(Array.from({ length: 3 }, () => budget.tryRetry(0)).every((permit) => permit)).toBe(true);
  for (const permit of recovering) permit.release();
  recovering[0]?.release();
  expect(budget.activeContinuations).toBe(0);
});
