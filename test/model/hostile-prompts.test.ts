import { setImmediate as turn } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { type CallerWork, WorkGivenUp } from "../../engine/caller-work/caller-work.ts";
import type { WorkKind } from "../../engine/caller-work/work-kinds.ts";
import { EngineError } from "../../engine/errors.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, text, user } from "../support/engine/canonical.ts";
import { missing, never, OPTIONS } from "../support/engine/demo-engine.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { workHere } from "../support/engine/work-here.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { generateRequest } from "../support/requests/generate-request.ts";

/* Prompts that would block the thread that sends all tokens, and prompts that cannot be rendered. */

const WINDOW = 4096;

describe.skipIf(missing !== "")("prompts that are costly or invalid", () => {
  /** The work that the backend gave to worker threads. */
  const handedOver: WorkKind[] = [];
  /** The failure of the work, if it is to fail. */
  let failure: Error | undefined;
  let backend: LlamaBackend;
  let node: RunningNode;
  let client: NodeClient;

  beforeAll(async () => {
    const work: Pick<CallerWork, "run" | "moves" | "parseFailed"> = {
      run: (kind, input, order) => {
        handedOver.push(kind);
        if (failure) return Promise.reject(failure);
        return workHere.run(kind, input, order);
      },
      moves: 0,
      parseFailed: (thrown) => workHere.parseFailed(thrown),
    };
    backend = new LlamaBackend({ ...OPTIONS, models: ["svc-qwen"], contextTokens: WINDOW }, work);
    await backend.start(never());
    node = await startNode(backend);
    client = new NodeClient(node.address);
  });
  afterAll(async () => {
    client.close();
    await node.stop();
    await backend.close();
  });

  const asked = (messages: readonly Message[], more: Partial<GenerateRequest> = {}) =>
    generateRequest({ messages, maxOutputTokens: 1, ...more });
  const count = (messages: readonly Message[]) => client.countTokens({ ...asked(messages), tenant: "t" });
  const kinds = async (request: GenerateRequest) => {
    const reading = client.generate(request);
    const { code, info } = await reading.ended;
    return { code, info, events: reading.events.map(({ kind }) => kind?.$case) };
  };
  const turns = (length: number, said: (at: number) => string) =>
    Array.from({ length }, (_, at) => (at % 2 ? assistant(text(said(at))) : user(said(at))));

  test.each<[string, readonly Message[]]>([
    ["12,000 one-letter messages", turns(12_000, () => "a")],
    ["12,000 empty messages", turns(12_000, () => "")],
    ["one text of a megabyte", [user("word ".repeat(200_000))]],
  ])("%s cannot fit, and are refused before rendering", async (_what, messages) => {
    handedOver.length = 0;
    const { code, info, events } = await kinds(asked(messages));
    expect({ code, reason: info?.reason, events }).toEqual({
      code: status.OUT_OF_RANGE,
      reason: "CONTEXT_WINDOW_EXCEEDED",
      events: [],
    });
    expect(Number(info?.metadata.input_tokens)).toBeGreaterThanOrEqual(WINDOW);
    expect(info?.metadata.context_window).toBe(String(WINDOW));
    await expect(count(messages)).rejects.toMatchObject({ code: status.OUT_OF_RANGE });
    expect(handedOver).toEqual([]);
  });

  test("a large conversation is rendered on a thread after a progress event, a small one at once", async () => {
    handedOver.length = 0;
    const large = await kinds(asked(turns(101, (at) => `line ${at}`)));
    expect(large.events.slice(0, 2)).toEqual(["progress", "started"]);
    expect(handedOver).toEqual(["render"]);
    const small = await kinds(asked(turns(5, (at) => `line ${at}`)));
    expect(small.events[0]).toBe("started");
    expect(handedOver).toEqual(["render"]);
  });

  test.each([
    ["takes too long to render is the caller's error", new WorkGivenUp(), "INVALID_REQUEST", status.INVALID_ARGUMENT],
    [
      "waits for too much other work may be retried elsewhere",
      new EngineError("QUEUE_FULL", "full"),
      "QUEUE_FULL",
      status.RESOURCE_EXHAUSTED,
    ],
  ])("a prompt that %s", async (_what, fault, reason, code) => {
    failure = fault;
    const messages = turns(101, (at) => `line ${at}`);
    const ended = await kinds(asked(messages)).finally(() => {
      failure = undefined;
    });
    // After the progress event, and without another.
    expect(ended).toMatchObject({ code, info: { reason }, events: ["progress"] });
  });

  test("an oversized prompt is counted to its end if near the limit, else estimated", async () => {
    const line = "One more line, and another word or two.\n";
    const perLine = ((await count([user(line.repeat(100))])).inputTokens - (await count([user("")])).inputTokens) / 100;
    const lines = (tokens: number) => Math.round(tokens / perLine);
    const near = asked([user(line.repeat(lines(1.5 * WINDOW)))]);
    const exact = (await count(near.messages)).inputTokens;
    expect((await kinds(near)).info?.metadata.input_tokens).toBe(String(exact));
    const far = (await count([user(line.repeat(lines(6 * WINDOW)))])).inputTokens;
    expect(Math.abs(far - 6 * WINDOW)).toBeLessThan(WINDOW / 2);
  });

  test("a prompt tokenised in slices lets the event loop run between them", async () => {
    let slices = 0;
    let over = false;
    const counting = count([user("word ".repeat(30_000))]).finally(() => {
      over = true;
    });
    for (; !over; slices += 1) await turn();
    await counting;
    // 150,000 characters, of which twice the window is tokenised.
    expect(slices).toBeGreaterThan(4);
  });

  test("a stop string that cuts a JSON answer is no violation of the constraint", async () => {
    const outputConstraint = { kind: { $case: "jsonObject", value: {} } } as const;
    const sampling = { temperature: 0, stop: ['"'], logitBias: {} };
    const request = asked([user("Count from 1 to 12.")], { outputConstraint, sampling, maxOutputTokens: 64 });
    const reading = client.generate(request);
    expect((await reading.ended).code).toBe(status.OK);
    expect(answerOf(reading.events).finished?.reason).toBe(FinishReason.STOP_SEQUENCE);
  });
});
