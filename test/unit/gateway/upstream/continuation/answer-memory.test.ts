import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { ContinuationBudget } from "../../../../../gateway/upstream/continuation/continuation-budget.ts";
import { ResumableAnswer } from "../../../../../gateway/upstream/continuation/resumable-answer.ts";
import { blockEnd, delta, started, textStart, toolCallStart } from "../../../../support/events/events.ts";

const ANSWERS = 200;

/** Returns the memory in use after a garbage collection, in bytes, including memory outside the heap. */
function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("nothing can be collected");
  collect();
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Feeds an answer with text and some calls, in deltas of a token each. */
function feed(answer: ResumableAnswer, tokens: number): void {
  answer.begin(true, true);
  answer.take([started(), textStart(0)], []);
  answer.take([delta(0, "first")], [1]);
  for (let token = 1; token < tokens; token += 1) answer.takeDeltas([`word ${token}`], [token]);
  answer.take([blockEnd(0), toolCallStart(1, "get_weather")], []);
  answer.take([delta(1, '{"city":')], [tokens]);
}

test.each([1, 300, 4_000, 10_000])(
  "a running answer of %d tokens takes at most 16 kB and 4 bytes a token",
  (tokens) => {
    const budget = new ContinuationBudget({ maxBytes: 1e9 });
    const beforeBytes = usedBytes();
    const answers = Array.from({ length: ANSWERS }, (_, index) => {
      const options = { budget, tenant: `${index}`, requestBytes: 0 };
      const answer = new ResumableAnswer({ ...options, onNotKept: () => {}, onGoesOn: () => {} });
      feed(answer, tokens);
      return answer;
    });
    const bytes = (usedBytes() - beforeBytes) / ANSWERS;
    expect(answers.every(({ tokens: kept }) => kept === tokens + 1)).toBe(true);
    expect(bytes).toBeLessThan(16_000 + 4 * tokens);
    // The counted bytes are about the real ones.
    expect(budget.bytes / ANSWERS).toBeGreaterThan(bytes / 2);
  },
);
