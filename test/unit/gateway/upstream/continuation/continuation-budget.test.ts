import { expect, test } from "vitest";
import {
  ContinuationBudget,
  continuationBytes,
  type KeptAnswer,
} from "../../../../../gateway/upstream/continuation/continuation-budget.ts";

function kept(answer: KeptAnswer | string): KeptAnswer {
  if (typeof answer === "string") throw new Error(`not kept: ${answer}`);
  return answer;
}

const never = () => false;

test("answers are kept while there is budget, and return it once", () => {
  const budget = new ContinuationBudget({ maxBytes: 100 });
  const one = kept(budget.keep("a", 5, never));
  const other = kept(budget.keep("b", 50, never));
  expect(budget.keep("c", 46, never)).toBe("no_room");
  expect(one.grow(20)).toBeUndefined();
  expect(one.grow(1)).toBe("no_room_for_key");
  expect(budget).toMatchObject({ bytes: 75, answers: 2 });
  for (const answer of [one, one, other]) answer.release();
  expect(budget).toMatchObject({ bytes: 0, answers: 0 });
  kept(budget.keep("b", 100, never));
});

test("a tenant uses no more than half of what others leave, except for a single answer", () => {
  const budget = new ContinuationBudget({ maxBytes: 100 });
  const big = kept(budget.keep("a", 70, never));
  expect(budget.keep("a", 1, never)).toBe("no_room_for_key");
  kept(budget.keep("b", 30, never));
  big.release();
  kept(budget.keep("a", 20, never));
  kept(budget.keep("a", 15, never));
  expect(budget.keep("a", 1, never)).toBe("no_room_for_key");
});

test("an overloaded process keeps no more answers", () => {
  let inTrouble = false;
  const budget = new ContinuationBudget({ maxBytes: 100, inTrouble: () => inTrouble });
  kept(budget.keep("a", 1, never));
  inTrouble = true;
  expect(budget.keep("a", 1, never)).toBe("overload");
});

test("the largest answers are dropped first, until enough memory is freed", () => {
  const budget = new ContinuationBudget({ maxBytes: 1_000 });
  const gone: number[] = [];
  for (const bytes of [10, 400, 100, 300, 190]) {
    const answer = kept(
      budget.keep(`${bytes}`, bytes, () => {
        // An answer that another engine continues just then stays.
        if (bytes === 300) return false;
        gone.push(bytes);
        answer.release();
        return true;
      }),
    );
  }
  expect(budget.releaseShare(0.25)).toBe(1);
  expect([gone, budget.bytes]).toEqual([[400], 600]);
  expect(budget.releaseShare(0.25)).toBe(1);
  expect(budget.releaseShare(1)).toBe(2);
  expect([gone, budget.bytes, budget.answers]).toEqual([[400, 190, 100, 10], 300, 1]);
  expect(budget.releaseShare(1)).toBe(0);
});

test("the callback runs each time when the total is used up, not when a tenant's share is", () => {
  let times = 0;
  const budget = new ContinuationBudget({ maxBytes: 100, onFull: () => (times += 1) });
  kept(budget.keep("a", 50, never));
  expect([budget.keep("a", 10, never), times]).toEqual(["no_room_for_key", 0]);
  expect([budget.keep("b", 60, never), times]).toEqual(["no_room", 1]);
  expect([budget.keep("c", 51, never), times]).toEqual(["no_room", 2]);
});

test("the default size is an eighth of the memory, at most 256 MiB", () => {
  expect([continuationBytes(800), continuationBytes(2 ** 40)]).toEqual([100, 2 ** 28]);
});
