import { expect, test } from "vitest";
import { RetryBudget } from "../../../../../gateway/upstream/retry/retry-budget.ts";

test.each([
  [0, 16],
  [84, 16],
  [85, 17],
  [104, 20],
])("with %i running or waiting requests, a budget of 20 percent allows %i retries at once", (requests, expected) => {
  const budget = new RetryBudget();
  const taken = Array.from({ length: 50 }, () => budget.take("budget", requests)).filter((one) => one);
  expect([taken.length, budget.activeRetries, budget.overflows]).toEqual([expected, expected, 50 - expected]);
  budget.free("budget");
  expect([budget.take("budget", requests), budget.take("budget", requests)]).toEqual([true, false]);
});

test("a request that recovers from a lost endpoint is counted, but takes no share of the retries", () => {
  const budget = new RetryBudget();
  for (let count = 0; count < 100; count += 1) budget.take("recovery", 0);
  expect(budget).toMatchObject({ activeContinuations: 100, activeRetries: 0, overflows: 0 });
  expect(Array.from({ length: 3 }, () => budget.take("budget", 0))).toEqual([true, true, true]);
  for (let count = 0; count < 100; count += 1) budget.free("recovery");
  expect(budget).toMatchObject({ activeContinuations: 0, activeRetries: 3 });
});
