import { describe, expect, test } from "vitest";
import { Retries } from "../../../../../gateway/upstream/retry/retries.ts";
import { RetryBudget } from "../../../../../gateway/upstream/retry/retry-budget.ts";

const FAILED = { hasUntried: true, untouched: false, patient: false, activeAndPending: 1 };

const PATIENT = { patientRetries: 4, patientPercent: 100 };

/** A request of a cluster whose budget has room for `most` retries at once. */
function retries({ most = 3, numRetries = 2 } = {}) {
  const budget = new RetryBudget({ budgetPercent: 0, minRetryConcurrency: most });
  const backOff = { baseIntervalMs: 100, maxIntervalMs: 1_000 };
  return { budget, of: new Retries({ ...{ numRetries, backOff, budget }, ...PATIENT, random: () => 0.5 }) };
}

describe("a failed try", () => {
  test("is repeated as often as the policy allows, after longer and longer waits", () => {
    const { of } = retries();
    expect([of.repeat(FAILED), of.repeat(FAILED), of.repeat(FAILED)]).toEqual([50, 150, undefined]);
  });

  test("is not repeated where every endpoint has had its try", () => {
    expect(retries().of.repeat({ ...FAILED, hasUntried: false })).toBeUndefined();
  });

  test("is repeated as often as answers are continued where its caller waits, in their budget", () => {
    const { of, budget } = retries({ most: 0 });
    const patient = { ...FAILED, hasUntried: false, patient: true };
    const waits = Array.from({ length: 5 }, () => of.repeat(patient));
    expect(waits).toEqual([50, 150, 350, 500, undefined]);
    expect([budget.activeRetries, budget.activeContinuations]).toEqual([0, 1]);
  });

  test("is not repeated beyond the budget, unless no engine had worked on the request", () => {
    const { of, budget } = retries({ most: 0 });
    expect(of.repeat(FAILED)).toBeUndefined();
    expect(of.state).toEqual({ at: "first" });
    expect(of.repeat({ ...FAILED, untouched: true })).toBe(50);
    expect(budget.activeRetries).toBe(0);
  });
});

describe("the place in the budget", () => {
  test.each([
    ["the try is over", (of: Retries) => of.tryEnded(), "retrying"],
    ["an answer begins", (of: Retries) => of.commit(), "committed"],
    ["the request is over", (of: Retries) => of.end(), "over"],
  ] as const)("is held until %s", (_, happens, at) => {
    const { of, budget } = retries();
    of.repeat(FAILED);
    expect([of.state.at, budget.activeRetries]).toEqual(["retrying", 1]);
    happens(of);
    expect([of.state.at, budget.activeRetries]).toEqual([at, 0]);
    of.end();
    expect(budget.activeRetries).toBe(0);
  });
});

test("what was passed on is not repeated, and stays so when its try is over", () => {
  const { of } = retries();
  of.commit();
  of.tryEnded();
  expect(of.state.at).toBe("committed");
  expect(of.repeat(FAILED)).toBeUndefined();
});
