import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend } from "../../../engine/backend.ts";
import { EngineError, type ErrorReason } from "../../../engine/errors.ts";
import { EventOrder } from "../../../gateway/upstream/call/event-order.ts";
import {
  CountTokensRequest,
  type Event,
  FinishReason,
  type GenerateRequest,
  type GenerateResponse,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability, EngineKind, ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { answerOf } from "../events/answer-of.ts";
import { generateRequest, toolOf } from "../requests/generate-request.ts";
import { until } from "../until.ts";
import { documentedOffers, type OfferColumn, offersOf } from "./backend-offers.ts";
import { declaration, text } from "./canonical.ts";

export type ConformingBackend = {
  readonly start: () => Promise<{ readonly backend: Backend; readonly stop: () => Promise<void> }>;
  readonly model: string;
  /** A prompt whose answer is deterministic text of at least ten characters and three tokens. */
  readonly prompt: string;
  /** A prompt whose answer does not end before its caller leaves. */
  readonly endlessPrompt: string;
  /** Whether the backend plays a script, so that requests do not change the answer. Default: false. */
  readonly playsOnly?: boolean;
  /** The backend's column of the table in engine/README.md. Default: it has none. */
  readonly column?: OfferColumn;
};

/**
 * The tool of the demonstration model's training, which any backend can call. It is strict and has no unbounded choice:
 * vLLM enforces no other schemas, and a weak model does not end an open one.
 */
const TOOL = {
  ...toolOf("get_weather", {
    type: "object",
    properties: { city: { enum: ["Oslo", "Rome"] } },
    required: ["city"],
    additionalProperties: false,
  }),
  strict: true,
};

const chosen = (mode: ToolChoiceMode, name = ""): ToolChoice => ({
  mode,
  name,
  disableParallelCalls: true,
  allowedNames: [],
});

export function backendConformance(name: string, subject: ConformingBackend): void {
  describe(`the backend contract, ${name}`, () => {
    const { model, prompt, endlessPrompt } = subject;
    let running: Awaited<ReturnType<ConformingBackend["start"]>>;
    beforeAll(async () => {
      running = await subject.start();
    }, 60_000);
    afterAll(() => running.stop());

    const asked = (fields: Partial<GenerateRequest> = {}, text = prompt) =>
      generateRequest({ model, sampling: { temperature: 0, stop: [], logitBias: {} }, ...fields }, text);
    const begin = (request = asked(), signal = new AbortController().signal) =>
      running.backend.generate(request, signal);
    const idle = () =>
      until(() => {
        const { busySlots, waiting } = running.backend.load();
        return busySlots === 0 && waiting === 0;
      }, `${name} is idle`);
    const held = async (signal?: AbortSignal) => {
      const stream = begin(asked({}, endlessPrompt), signal);
      await firstDelta(stream);
      return stream;
    };

    test("describe lists every served model, ready after the start", () => {
      const { engineKind, models } = running.backend.describe();
      expect(engineKind).not.toBe(EngineKind.UNSPECIFIED);
      expect(models).toMatchObject([{ id: model, state: ModelState.READY }]);
      expect(models[0]?.contextWindow).toBeGreaterThan(0);
    });

    test("load reports the slots, none of them busy while idle", () => {
      expect(running.backend.load()).toMatchObject({ slots: 2, busySlots: 0, waiting: 0 });
    });

    test("an answer is started, then blocks in sequence, then finished", async () => {
      const { events, steps } = await whole(begin());
      const order = new EventOrder();
      expect(events.filter((event) => !order.allows(event))).toEqual([]);
      expect(order.finished).toBe(true);
      expect(events.at(-1)?.kind?.$case).toBe("finished");
      expect(steps.filter(({ events, tokens }) => events.length + tokens.length === 0)).toEqual([]);
      const { started, blocks } = answerOf(events);
      expect(started?.nodeId).toBe("n1");
      expect(blocks.filter(({ kind }) => kind === "text")).toHaveLength(1);
      expect(blocks.every(({ complete, text }) => complete && text !== "")).toBe(true);
      await idle();
    });

    test("finished reports usage that matches started", async () => {
      const { started, finished } = answerOf((await whole(begin())).events);
      expect(finished?.reason).toBe(FinishReason.STOP);
      expect(started?.inputTokens).toBeGreaterThan(0);
      expect(finished?.usage?.inputTokens).toBe(started?.inputTokens);
      expect(finished?.usage?.outputTokens).toBeGreaterThan(0);
      expect(finished?.usage?.cachedInputTokens).toBeLessThanOrEqual(started?.inputTokens ?? 0);
    });

    test("an answer is continued from its tokens at any cut, or a continuation is refused by name", async () => {
      const request = asked({ resumable: true });
      const { events, steps } = await whole(begin(request));
      const tokens = steps.flatMap((step) => step.tokens);
      const { started } = answerOf(events);
      const continuation = { modelRevision: started?.modelRevision ?? "", tokens, callIds: [] };
      const [described] = running.backend.describe().models;
      if (!described?.capabilities.includes(Capability.CONTINUATION)) {
        expect(tokens).toEqual([]);
        expect(await failureOf(begin({ ...request, continuation }))).toBe("UNSUPPORTED_FEATURE");
        return;
      }
      expect(tokens.length).toBeGreaterThan(0);
      for (const cut of [0, 1, tokens.length - 1, tokens.length]) {
        const rest = await whole(
          begin({ ...request, continuation: { ...continuation, tokens: tokens.slice(0, cut) } }),
        );
        expect(answerOf(rest.events).blocks).toEqual(answerOf(events).blocks);
        expect(rest.steps.flatMap((step) => step.tokens)).toEqual(tokens);
        expect(rest.events.find(({ kind }) => kind?.$case !== "progress")?.kind?.$case).toBe("started");
      }
      const other = { ...continuation, modelRevision: `${continuation.modelRevision} not` };
      expect(await failureOf(begin({ ...request, continuation: other }))).toBe("REVISION_MISMATCH");
      await idle();
    });

    test("two concurrent answers are two complete answers", async () => {
      const texts = (await Promise.all([whole(begin()), whole(begin())])).map(({ events }) => textOf(events));
      expect(texts[0]).not.toBe("");
      expect(texts[1]).toBe(texts[0]);
      await idle();
    });

    const { column } = subject;
    if (column !== undefined)
      test("it offers what engine/README.md says (SVC_WRITE_OFFERS=1 writes that)", async () => {
        const offers = await offersOf(running.backend, column, asked, TOOL);
        expect(documentedOffers(column, offers)).toEqual(offers);
        await idle();
      });

    // Omitted rather than skipped: a skip counts as a lost check.
    const describeAsked = subject.playsOnly ? () => {} : describe;
    describeAsked("what a request asks for", () => {
      test("a token count is that of the same generation's prompt", async () => {
        const { messages } = asked();
        const request = { ...CountTokensRequest.create(), model, messages };
        const counted = await running.backend.countTokens(request, new AbortController().signal);
        const { finished } = answerOf((await whole(begin(asked({ maxOutputTokens: 1 })))).events);
        expect(finished?.usage?.inputTokens).toBe(counted);
      });

      test("a stop string ends the answer, is reported, and is not part of it", async () => {
        const text = textOf((await whole(begin())).events);
        const stop = text.slice(5, 8);
        const sampling = { temperature: 0, stop: ["never to be seen", stop], logitBias: {} };
        const { events } = await whole(begin(asked({ sampling })));
        expect(textOf(events)).toBe(text.slice(0, text.indexOf(stop)));
        const { reason, matchedStop } = answerOf(events).finished ?? {};
        expect([reason, matchedStop]).toEqual([FinishReason.STOP_SEQUENCE, stop]);
        await idle();
      });

      test("max_output_tokens ends the answer and is the finish reason", async () => {
        const { finished } = answerOf((await whole(begin(asked({ maxOutputTokens: 2 })))).events);
        expect(finished?.reason).toBe(FinishReason.MAX_OUTPUT_TOKENS);
        expect(finished?.usage?.outputTokens).toBe(2);
        await idle();
      });

      test.each<[string, Partial<GenerateRequest>]>([
        ["", {}],
        [" of a required call", { tools: [TOOL], toolChoice: chosen(ToolChoiceMode.REQUIRED) }],
        [" behind reasoning", { reasoning: { mode: ReasoningMode.ENABLED, effort: 0 } }],
      ])("an answer of no tokens%s reads the prompt alone", async (_what, fields) => {
        const request = asked({ maxOutputTokens: 0, ...fields });
        const { blocks, finished } = answerOf((await whole(begin(request))).events);
        expect([blocks, finished?.reason]).toEqual([[], FinishReason.STOP]);
        expect(finished?.usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: 0, reasoningTokens: 0 });
        await idle();
      });

      const named = { tools: [TOOL], toolChoice: chosen(ToolChoiceMode.NAMED, TOOL.name) };
      const deferred = { ...named, tools: [toolOf("find", {}), { ...TOOL, deferred: true }] };
      const declaring = [{ role: Role.USER, parts: [text("Weather in Oslo?"), declaration(TOOL.name)] }];

      test.each<[string, Partial<GenerateRequest>]>([
        ["", named],
        [" of a tool that is declared in mid-conversation", { ...deferred, messages: declaring }],
      ])("a required call%s is made, with an id and an object of arguments", async (_what, fields) => {
        const { blocks, finished } = answerOf((await whole(begin(asked(fields)))).events);
        expect(blocks).toMatchObject([{ kind: "toolCall", name: TOOL.name, complete: true }]);
        expect(blocks[0]?.id).toMatch(/./);
        expect(JSON.parse(blocks[0]?.text ?? "")).toBeTypeOf("object");
        expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
      });

      test.each<[string, Partial<GenerateRequest>]>([
        ["a demand for a tool that is not there", { toolChoice: chosen(ToolChoiceMode.NAMED, "nope") }],
        ["a demand for a deferred tool that is not declared", deferred],
        ["a demand for any tool where none is", { toolChoice: chosen(ToolChoiceMode.REQUIRED) }],
      ])("%s is refused before it takes a slot", async (_what, fields) => {
        expect(await failureOf(begin(asked(fields)))).toBe("INVALID_REQUEST");
        await idle();
      });
    });

    test("a caller that has left before the call gets nothing", async () => {
      expect(await failureOf(begin(asked(), AbortSignal.abort()))).toBe("CANCELLED");
      await idle();
    });

    test("leaving the iteration stops the work", async () => {
      for await (const { events } of begin(asked({}, endlessPrompt))) if (events.some(isDelta)) break;
      await idle();
    });

    test.each(["DEADLINE", "DRAINING"] as const)(
      "a signal that is aborted with %s ends the work with it",
      async (why) => {
        const leave = new AbortController();
        const stream = await held(leave.signal);
        const end = failureOf(stream);
        leave.abort(new EngineError(why, "The test has ended it."));
        expect(await end).toBe(why);
        await idle();
      },
    );

    test("a paused caller keeps its slot, and is owed no step", async () => {
      const stream = await held();
      await until(() => (running.backend.load().steps?.inFlight ?? 0) === 0, "no step is in flight");
      expect(running.backend.load().busySlots).toBe(1);
      await stream.return();
      await idle();
    });

    test("with all slots busy the next call is refused, and accepted once one is free", async () => {
      const first = await held();
      const second = await held();
      expect(await failureOf(begin())).toBe("QUEUE_FULL");
      await first.return();
      await until(() => running.backend.load().busySlots === 1, "a slot is free");
      expect(textOf((await whole(begin())).events)).not.toBe("");
      await second.return();
      await idle();
    });

    // Last: the backend does not work after it.
    test("close fails running generations with ENGINE_DOWN, and serves no more", async () => {
      const end = failureOf(await held());
      await running.backend.close();
      expect(await end).toBe("ENGINE_DOWN");
      expect(await failureOf(begin())).toMatch(/^(ENGINE_DOWN|MODEL_LOADING)$/);
    });
  });
}

async function whole(stream: AsyncIterable<GenerateResponse>): Promise<{
  readonly events: readonly Event[];
  readonly steps: readonly GenerateResponse[];
}> {
  const steps: GenerateResponse[] = [];
  for await (const step of stream) steps.push(step);
  return { events: steps.flatMap(({ events }) => events), steps };
}

/** Reads to the end, and returns the failure's reason; throws if there is none, or if it is not an `EngineError`. */
async function failureOf(stream: AsyncIterable<GenerateResponse>): Promise<ErrorReason> {
  try {
    await whole(stream);
  } catch (error) {
    if (error instanceof EngineError) return error.reason;
    throw error;
  }
  throw new Error("the generation did not fail");
}

async function firstDelta(stream: AsyncGenerator<GenerateResponse, void, void>): Promise<void> {
  for (;;) {
    const { value, done } = await stream.next();
    if (done) throw new Error("the generation has no delta");
    if (value.events.some(isDelta)) return;
  }
}

function textOf(events: readonly Event[]): string {
  return answerOf(events)
    .blocks.filter(({ kind }) => kind === "text")
    .map(({ text }) => text)
    .join("");
}

function isDelta({ kind }: Event): boolean {
  return kind?.$case === "blockDelta";
}
