import { once } from "node:events";
import { pino } from "pino";
import { expect, test } from "vitest";
import { GenerationCall } from "../../../../engine/calls/generation-call.ts";
import { OpenCalls } from "../../../../engine/calls/open-calls.ts";
import { NodeState } from "../../../../engine/node/node-state.ts";
import { watchNode } from "../../../../engine/node/watchdog.ts";
import { countedBackend } from "../../../support/engine/counted-backend.ts";
import type { Script } from "../../../support/engine/scripted-backend.ts";
import { workHere } from "../../../support/engine/work-here.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../support/events/events.ts";
import { generateRequest } from "../../../support/requests/generate-request.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/** More than a message holds: a reader that takes nothing is then too far behind. */
const LONG = "x".repeat(20_000);

/** Selected by the request id: a complete answer, an endless one, or an engine that never answers. */
const script: Script = async function* ({ requestId }, signal) {
  yield [started(), textStart(0)];
  if (requestId === "stuck") await once(signal, "abort");
  if (requestId === "whole") yield [delta(0, LONG), blockEnd(0), finished()];
  while (requestId === "endless" && !signal.aborted) yield [delta(0, LONG)];
};

/** A watched node whose callers read nothing. */
function watched() {
  const clock = new VirtualClock();
  const backend = countedBackend(script);
  const calls = new OpenCalls(clock);
  const state = new NodeState({ nodeId: "n1", nodeVersion: "test", models: ["svc-qwen"], setHealth: () => {} });
  state.become("serving");
  const watchdog = watchNode({
    backend,
    models: ["svc-qwen"],
    clock,
    stallMs: 1_000,
    state,
    calls,
    log: pino({ level: "silent" }),
    onChange: () => {},
    signal: new AbortController().signal,
  });
  watchdog.start();
  const failures: string[] = [];
  const begin = async (requestId: string) => {
    const sink = {
      write: () => false,
      onDrain: () => {},
      end: () => {},
      fail: () => failures.push(requestId),
    };
    const request = generateRequest({ requestId });
    const admit = (model: string) => state.admit(model);
    const call = new GenerationCall({
      request,
      sink,
      backend,
      work: workHere,
      clock,
      admit,
      deadlineMs: Number.POSITIVE_INFINITY,
    });
    calls.begin(call);
    void call.run().then(() => calls.ended(call));
    await clock.advance(0);
  };
  return { clock, backend, calls, state, begin, failures };
}

test.each(["whole", "endless"])("one stuck slot is detected beside a slow reader whose answer is %s", async (other) => {
  const { clock, calls, state, begin, failures } = watched();
  await begin(other);
  await begin("stuck");
  expect([calls.running, calls.paused]).toEqual([2, 1]);
  await clock.advance(1_250);
  expect(state.now).toBe("stalled");
  expect(failures).toContain("stuck");
});
