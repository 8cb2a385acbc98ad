import { expect, test } from "vitest";
import { type Script, ScriptedBackend } from "../../../../../engine/backends/scripted/scripted.ts";
import { stepOf } from "../../../../../engine/backends/stream-events.ts";
import type { Continuation, GenerateResponse } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, textStart, toolCallStart } from "../../../../support/events/events.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";

const COUNTED: Script = () => [
  [started(), textStart(0)],
  [delta(0, "a"), delta(0, "b")],
  [delta(0, "c"), blockEnd(0)],
  [finished()],
];
const SAID: Script = () => [
  stepOf([started()]),
  stepOf([], [700, 7]),
  stepOf([toolCallStart(0, "find"), delta(0, "{}"), blockEnd(0)], [70]),
  stepOf([finished()]),
];

const continued = (fields: Partial<Continuation>): Continuation => ({
  modelRevision: "scripted",
  tokens: [],
  callIds: [],
  ...fields,
});

async function played(script: Script, continuation?: Continuation, revision = "scripted") {
  const backend = new ScriptedBackend({ nodeId: "n1", models: ["svc-qwen"], slots: 1, script, revision });
  const steps: GenerateResponse[] = [];
  const read = async () => {
    const request = generateRequest({ resumable: true, continuation });
    for await (const step of backend.generate(request, new AbortController().signal)) steps.push(step);
  };
  const failure = await read().catch((error: unknown) => error);
  return { steps, tokens: steps.map(({ tokens }) => tokens), failure };
}

test("each delta is a token, counted from 1, unless the script has explicit tokens", async () => {
  expect((await played(COUNTED)).tokens).toEqual([[], [1, 2], [3], []]);
  expect((await played(SAID)).tokens).toEqual([[], [700, 7], [70], []]);
});

test.each([0, 1, 2, 3])("a continuation of %i tokens plays the whole script again", async (count) => {
  const { steps, failure } = await played(COUNTED, continued({ tokens: [1, 2, 3].slice(0, count) }));
  expect(failure).toBeUndefined();
  expect(steps).toEqual((await played(COUNTED)).steps);
});

test("a continuation keeps the call ids of the answer", async () => {
  const { steps } = await played(SAID, continued({ tokens: [700], callIds: ["given"] }));
  expect(steps[2]?.events[0]).toMatchObject({ kind: { value: { block: { value: { callId: "given" } } } } });
});

test.each<[string, Continuation, string]>([
  ["another revision", continued({ modelRevision: "other" }), "REVISION_MISMATCH"],
  ["a token that is not in the script", continued({ tokens: [1, 3] }), "INVALID_REQUEST"],
  ["more tokens than the script has", continued({ tokens: [1, 2, 3, 4] }), "INVALID_REQUEST"],
])("a continuation with %s is refused", async (_what, continuation, reason) => {
  expect((await played(COUNTED, continuation)).failure).toMatchObject({ reason });
});

test("a node of another revision refuses a continuation of this one", async () => {
  expect((await played(COUNTED, continued({}), "second")).failure).toMatchObject({ reason: "REVISION_MISMATCH" });
});
