import { expect, test } from "vitest";
import { ContinuationRoom } from "../../../../../gateway/upstream/continuation/continuation-room.ts";
import { ResumableAnswer } from "../../../../../gateway/upstream/continuation/resumable-answer.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../../support/events/events.ts";

function resumable() {
  const room = new ContinuationRoom({ maxBytes: 1_000_000 });
  const answer = new ResumableAnswer({
    ...{ room, tenant: "t", requestBytes: 10, onNotKept: () => {}, onGoesOn: () => {} },
  });
  answer.begin(true, true);
  return answer;
}

const HEAD = [started(), textStart(0), delta(0, "He")];
const TEXTS = ["l", "lo, ", "wörld"];

/** An answer whose engine was lost behind some deltas, which came as texts or as events. */
function lost(as: "texts" | "events") {
  const answer = resumable();
  answer.take(HEAD, [1]);
  for (const [at, text] of TEXTS.entries()) {
    if (as === "texts") expect(answer.takeDeltas([text], [at + 2])).toBe(true);
    else answer.take([delta(0, text)], [at + 2]);
  }
  return answer;
}

test.each(["texts", "events"] as const)("deltas that came as %s are continued", (as) => {
  const answer = lost(as);
  expect(answer.begin(true, true)).toMatchObject({ tokens: [1, 2, 3, 4] });
  // Cut differently, all that the caller has comes again.
  expect(answer.take([started(), textStart(0)], [])).toEqual([]);
  expect(answer.takeDeltas(["Hello, wörld"], [1, 2, 3, 4])).toBe(false);
  expect(answer.take([delta(0, "Hello, wörld")], [1, 2, 3, 4])).toEqual([]);
  // No new delta so far: the next one has to report the continuation.
  expect(answer.takeDeltas(["!"], [5])).toBe(false);
  expect(answer.take([delta(0, "!")], [5])).toEqual([delta(0, "!")]);
  expect(answer.takeDeltas(["?"], [6])).toBe(true);
  expect(answer.gotOn).toBe(true);
  expect(answer.begin(true, true)).toMatchObject({ tokens: [1, 2, 3, 4, 5, 6] });
  answer.take([started(), textStart(0), delta(0, "Hello, wörld!?"), blockEnd(0), finished()], [1, 2, 3, 4, 5, 6]);
  expect(answer.finished).toBe(true);
});

test.each(["texts", "events"] as const)("a different text is detected behind deltas that came as %s", (as) => {
  const answer = lost(as);
  answer.begin(true, true);
  answer.take([started(), textStart(0)], []);
  expect(answer.take([delta(0, "Hello, world!")], [1, 2, 3, 4])).toBeUndefined();
});

test("an answer that is not kept lets deltas through", () => {
  const answer = resumable();
  answer.begin(false, true);
  expect(answer.takeDeltas(["x"], [])).toBe(true);
  expect(answer.workedOn).toBe(true);
});
