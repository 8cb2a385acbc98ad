import { describe, expect, test } from "vitest";
import { RetryBoundary } from "../../../../../gateway/upstream/call/retry-boundary.ts";
import type { Event } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../../../support/events/events.ts";

const flow = { pause() {}, resume() {} };
const progress: Event = { kind: { $case: "progress", value: { queuePosition: 1, prefilledTokens: 0, step: 0 } } };

function gated() {
  const passed: Event[] = [];
  const gate = new RetryBoundary({ events: (more) => void passed.push(...more) }, () => {});
  const pass = (...more: readonly Event[]) => gate.pass(more, flow);
  const kinds = () => passed.map(({ kind }) => kind?.$case);
  return { gate, pass, passed, kinds };
}

describe("a streamed answer", () => {
  test("keep-alives pass at once, a block's start waits for its first delta", () => {
    const { gate, pass, kinds } = gated();
    pass(progress);
    pass(started(), textStart(0));
    pass(progress);
    expect(kinds()).toEqual(["progress", "started", "progress"]);
    expect(gate.committed).toBe(false);
    pass(delta(0, "a"));
    expect(kinds()).toEqual(["progress", "started", "progress", "blockStarted", "blockDelta"]);
    expect(gate.committed).toBe(true);
  });

  test("an answer without a single delta is passed on when it is complete", () => {
    const { gate, pass, kinds } = gated();
    pass(started(), textStart(0));
    pass(blockEnd(0), finished());
    expect(kinds()).toEqual(["started", "blockStarted", "blockEnded", "finished"]);
    expect(gate.committed).toBe(true);
  });

  test("every event passes once and in order, however the messages are cut", () => {
    const whole = textAnswer("a", "b", "c");
    for (let cut = 0; cut <= whole.length; cut += 1) {
      const { pass, passed } = gated();
      if (cut > 0) pass(...whole.slice(0, cut));
      if (cut < whole.length) pass(...whole.slice(cut));
      expect(passed).toEqual(whole);
    }
  });
});
