import { expect, test } from "vitest";
import { EventOrder } from "../../../../../gateway/upstream/call/event-order.ts";
import {
  FinishReason,
  type GenerateRequest,
  ReasoningMode,
  Sampling,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineKind } from "../../../../../proto/gen/svc/inference/v1/node_service.ts";
import { generateRequest, textMessage, toolOf } from "../../../../support/requests/generate-request.ts";
import { deltas, type Play, play, simulator } from "./played-simulator.ts";

const kinds = ({ heard }: Play) => heard.map(({ event }) => event.kind?.$case);
const at = ({ heard }: Play, kind: string) => heard.find(({ event }) => event.kind?.$case === kind)?.atMs;

function textOf(play: Play): string {
  return deltas(play)
    .map(({ event }) => (event.kind?.$case === "blockDelta" ? event.kind.value.text : ""))
    .join("");
}

function finishedOf({ heard }: Play) {
  const kind = heard.at(-1)?.event.kind;
  if (kind?.$case !== "finished") throw new Error("not finished");
  return kind.value;
}

/** A complete generation. */
async function whole(node: ReturnType<typeof simulator>, request: GenerateRequest): Promise<Play> {
  const played = play(node, request);
  await node.clock.advance(60_000);
  expect(await played.over).toBeUndefined();
  const order = new EventOrder();
  expect(played.heard.every(({ event }) => order.allows(event))).toBe(true);
  expect(order.finished).toBe(true);
  expect(node.backend.load()).toMatchObject({ busySlots: 0, waiting: 0, kvTokensUsed: 0 });
  return played;
}

test("the first token follows the prefill and the configured delay, the others the configured rate", async () => {
  const node = simulator();
  // 2,000 tokens at 10,000 per second, then 50 ms.
  const played = await whole(node, generateRequest({}, "x".repeat(8_000 - "role 2\n\nrole 3\n".length)));
  expect(at(played, "started")).toBe(0);
  expect(deltas(played).map(({ atMs }) => atMs)).toEqual([250, 260, 270, 280, 290, 300, 310, 320, 330, 340]);
  const { usage, timings } = finishedOf(played);
  expect(usage).toMatchObject({ inputTokens: 2_000, cachedInputTokens: 0, outputTokens: 10 });
  expect(timings).toMatchObject({ prefill: { nanos: 200_000_000 }, decode: { nanos: 140_000_000 } });
});

test("prompts are prefilled one at a time", async () => {
  const node = simulator();
  const first = play(node, generateRequest({}, "x".repeat(8_000)));
  const second = play(node, generateRequest({}, "y".repeat(8_000)));
  await node.clock.advance(60_000);
  expect((at(second, "blockDelta") ?? 0) - (at(first, "blockDelta") ?? 0)).toBe(200);
});

test("equal seeds give equal text on any node, and different seeds different text", async () => {
  const request = generateRequest();
  const [one, two, other] = [simulator(), simulator({ nodeId: "n2" }), simulator({ seed: 8 })];
  const text = textOf(await whole(one, request));
  expect(text.split(" ")).toHaveLength(10);
  expect(textOf(await whole(two, { ...request, requestId: "r2" }))).toBe(text);
  expect(textOf(await whole(other, request))).not.toBe(text);
  expect(textOf(await whole(one, generateRequest({}, "hello!")))).not.toBe(text);
});

test("jitter changes the pace deterministically", async () => {
  const paces = [];
  for (const options of [{ jitter: 0.5 }, { jitter: 0.5 }, { jitter: 0.5, seed: 8 }]) {
    const played = await whole(simulator(options), generateRequest());
    paces.push(deltas(played).map(({ atMs }) => Math.round(atMs)));
  }
  expect(paces[1]).toEqual(paces[0]);
  expect(paces[2]).not.toEqual(paces[0]);
});

test("a prefix is reused in whole blocks, by its own tenant and salt only", async () => {
  const node = simulator();
  const turn = (text: string, salt: string) =>
    generateRequest({ tenant: "t1", cache: { affinityKey: "", isolationSalt: salt, ttl: undefined } }, text);
  const text = "word ".repeat(1_000);
  const cached = async (request: GenerateRequest) => finishedOf(await whole(node, request)).usage?.cachedInputTokens;
  expect(await cached(turn(text, "a"))).toBe(0);
  expect(await cached(turn(text, "a"))).toBe(1_216);
  expect(await cached(turn(`${text}and more`, "a"))).toBe(1_216);
  expect(await cached(turn(text, "b"))).toBe(0);
  expect(await cached({ ...turn(text, "a"), tenant: "t2" })).toBe(0);
});

test("the next turn of a conversation reuses the previous answer", async () => {
  const node = simulator({ answerTokens: { min: 200, max: 200 } });
  const first = generateRequest({}, "question");
  const answer = await whole(node, first);
  const messages = [...first.messages, textMessage(Role.ASSISTANT, textOf(answer)), textMessage(Role.USER, "go on")];
  const next = await whole(node, generateRequest({ messages }));
  const { usage } = finishedOf(next);
  expect(usage?.cachedInputTokens).toBeGreaterThan(128);
  expect((usage?.inputTokens ?? 0) - (usage?.cachedInputTokens ?? 0)).toBeLessThan(128);
});

test("cached tokens take no prefill time", async () => {
  const node = simulator();
  const request = generateRequest({}, "x".repeat(8_000));
  const cold = await whole(node, request);
  const warm = await whole(node, request);
  const wait = (played: Play) => (at(played, "blockDelta") ?? 0) - (at(played, "started") ?? 0);
  expect(wait(cold)).toBe(260);
  expect(wait(warm)).toBe(60);
});

test("tokens up to a cache breakpoint are reported as written, once", async () => {
  const node = simulator();
  const system = textMessage(Role.SYSTEM, "x".repeat(4_000));
  const parts = system.parts.map((part) => ({ ...part, cacheBreakpoint: { ttl: undefined } }));
  const messages = [{ ...system, parts }, textMessage(Role.USER, "hello")];
  const written = async () => finishedOf(await whole(node, generateRequest({ messages }))).usage?.cacheWriteTokens;
  expect(await written()).toBe(1_002);
  expect(await written()).toBeLessThan(64);
});

test("requests wait for a slot by priority, and one beyond the queue's length is refused", async () => {
  const node = simulator({ slots: 1, queueLength: 2 });
  const running = play(node, generateRequest());
  const low = play(node, generateRequest({ priority: -1 }, "low"));
  const high = play(node, generateRequest({ priority: 5 }, "high"));
  const refused = play(node, generateRequest({}, "refused"));
  await node.clock.advance(10);
  expect(await refused.over).toMatchObject({ reason: "QUEUE_FULL" });
  expect(node.backend.load()).toMatchObject({ busySlots: 1, waiting: 2, slots: 1 });
  expect(node.backend.load().queuedUncachedTokens).toBeGreaterThan(0);
  await node.clock.advance(60_000);
  await Promise.all([running.over, low.over, high.over]);
  expect(at(high, "started")).toBe(at(running, "finished"));
  expect(at(low, "started")).toBe(at(high, "finished"));
  expect(finishedOf(low).timings?.queue?.nanos).toBeGreaterThan(0);
});

test("a request waits while the KV cache is full, though slots are free", async () => {
  const node = simulator({ slots: 8, kvTokens: 3_000 });
  const first = play(node, generateRequest({}, "x".repeat(8_000)));
  const second = play(node, generateRequest({}, "y".repeat(8_000)));
  await node.clock.advance(10);
  expect(node.backend.load()).toMatchObject({ busySlots: 1, waiting: 1, kvTokensTotal: 3_000 });
  expect(node.backend.load().kvUse).toBeCloseTo(2_014 / 3_000, 3);
  await node.clock.advance(60_000);
  expect([await first.over, await second.over]).toEqual([undefined, undefined]);
});

test("waiting requests get progress once per second of steps, in the queue and during prefill", async () => {
  const node = simulator({ slots: 1, prefillTokensPerSecond: 1_000, tokensPerSecond: 10 });
  const running = play(node, generateRequest({}, "x".repeat(14_000)));
  const waiting = play(node, generateRequest({}, "y"));
  await node.clock.advance(3_000);
  const standing = (step: number) => ({ queuePosition: 0, prefilledTokens: 0, step });
  expect(waiting.heard.map(({ event }) => event.kind?.value)).toEqual([standing(10), standing(20), standing(30)]);
  expect(running.heard.map(({ event }) => event.kind?.value)).toMatchObject([
    { nodeId: "n1" },
    { prefilledTokens: 1_000 },
    { prefilledTokens: 2_000 },
    { prefilledTokens: 3_000 },
  ]);
  await node.clock.advance(60_000);
  await Promise.all([running.over, waiting.over]);
});

test("a departing caller frees its slot or its place in the queue at once", async () => {
  const node = simulator({ slots: 1 });
  const running = play(node, generateRequest());
  const waiting = play(node, generateRequest({}, "waits"));
  const next = play(node, generateRequest({}, "next"));
  await node.clock.advance(100);
  waiting.leave.abort();
  expect(await waiting.over).toMatchObject({ reason: "CANCELLED" });
  expect(node.backend.load()).toMatchObject({ busySlots: 1, waiting: 1 });
  running.leave.abort();
  expect(await running.over).toMatchObject({ reason: "CANCELLED" });
  expect(node.backend.load()).toMatchObject({ busySlots: 1, waiting: 0 });
  await node.clock.advance(0);
  expect(at(next, "started")).toBe(100);
  await node.clock.advance(60_000);
  expect(await next.over).toBeUndefined();
});

test("nothing is generated while the reader pauses, and other steps continue", async () => {
  const { clock, backend } = simulator();
  const stream = backend.generate(generateRequest(), new AbortController().signal);
  const started = await stream.next();
  expect(started.value?.events).toHaveLength(1);
  await clock.advance(10_000);
  expect(backend.load().steps).toEqual({ made: 1_000, inFlight: 0 });
  const first = stream.next();
  expect(backend.load().steps).toEqual({ made: 1_000, inFlight: 1 });
  await clock.advance(70);
  const kinds = (await first).value?.events.map(({ kind }) => kind?.$case);
  expect(kinds).toEqual(["blockStarted", "blockDelta"]);
  await stream.return();
  expect(backend.load().busySlots).toBe(0);
});

test.each([
  ["max_output_tokens", { maxOutputTokens: 4 }, {}, FinishReason.MAX_OUTPUT_TOKENS],
  ["the context window", {}, { contextTokens: 9 }, FinishReason.CONTEXT_WINDOW],
])("an answer ends at %s, its block incomplete", async (_, fields, options, reason) => {
  const played = await whole(simulator(options), generateRequest(fields));
  expect(finishedOf(played)).toMatchObject({ reason, usage: { outputTokens: 4 } });
  expect(played.heard.at(-2)?.event.kind).toMatchObject({ $case: "blockEnded", value: { complete: false } });
});

test("a stop string ends the text before it", async () => {
  const free = textOf(await whole(simulator(), generateRequest()));
  const stop = free.slice(10, 14);
  const played = await whole(simulator(), generateRequest({ sampling: { ...Sampling.create(), stop: ["§", stop] } }));
  expect(textOf(played)).toBe(free.slice(0, free.indexOf(stop)));
  expect(finishedOf(played)).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: stop });
});

test("a forced tool is called with arguments of its schema, after the requested reasoning", async () => {
  const schema = { type: "object", properties: { path: { type: "string" }, n: { type: "integer" } }, required: ["n"] };
  const played = await whole(
    simulator(),
    generateRequest({
      tools: [toolOf("other", {}), toolOf("read", schema)],
      toolChoice: { mode: ToolChoiceMode.NAMED, name: "read", disableParallelCalls: false, allowedNames: [] },
      reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens: 5 },
    }),
  );
  const blocks = played.heard.flatMap(({ event }) => (event.kind?.$case === "blockStarted" ? [event.kind.value] : []));
  expect(blocks).toMatchObject([
    { index: 0, block: { $case: "reasoning" } },
    { index: 1, block: { $case: "toolCall", value: { name: "read" } } },
  ]);
  const json = deltas(played).flatMap(({ event }) =>
    event.kind?.$case === "blockDelta" && event.kind.value.index === 1 ? [event.kind.value.text] : [],
  );
  expect(JSON.parse(json.join(""))).toEqual({ n: 0 });
  expect(finishedOf(played)).toMatchObject({ reason: FinishReason.TOOL_CALLS, usage: { reasoningTokens: 5 } });
});

test.each([
  ["a long text", { const: "x".repeat(64 * 1024) }],
  ["a long list", { type: "array", minItems: 1e9 }],
])("a costly schema is dropped if it is not strict, and refused if it is: %s", async (_, schema) => {
  const asked = (strict: boolean) => {
    const value = { name: "x", schemaJson: JSON.stringify(schema), strict };
    return generateRequest({ outputConstraint: { kind: { $case: "jsonSchema", value } } });
  };
  expect(textOf(await whole(simulator(), asked(false)))).toBe("{}");
  const node = simulator();
  const played = play(node, asked(true));
  await node.clock.advance(60_000);
  expect(await played.over).toMatchObject({ reason: "INVALID_SCHEMA", facts: { fault: "costly" } });
});

test("an injected failure breaks the stream off after that many tokens", async () => {
  const node = simulator({ failure: { afterTokens: 3 } });
  const played = play(node, generateRequest());
  await node.clock.advance(60_000);
  expect(await played.over).toMatchObject({ reason: "ENGINE_STREAM_TRUNCATED" });
  expect(deltas(played)).toHaveLength(3);
  expect(kinds(played)).not.toContain("finished");
  expect(node.backend.load().busySlots).toBe(0);
});

test.each([
  ["a prompt beyond the window", {}, "x".repeat(400_001), "CONTEXT_WINDOW_EXCEEDED"],
  ["no token at all", { maxOutputTokens: 0 }, "x", "INVALID_REQUEST"],
  [
    "an unknown tool",
    { toolChoice: { mode: ToolChoiceMode.NAMED, name: "read", disableParallelCalls: false, allowedNames: [] } },
    "x",
    "INVALID_REQUEST",
  ],
])("%s is refused before it takes a slot", async (_, fields, text, reason) => {
  const node = simulator();
  const played = play(node, generateRequest(fields, text));
  expect(await played.over).toMatchObject({ reason });
  expect(node.backend.load().busySlots).toBe(0);
});

test("the description names the simulator, and its token counts match its usage", async () => {
  const node = simulator();
  expect(node.backend.describe()).toMatchObject({ engineKind: EngineKind.SIMULATOR, models: [{ id: "svc-qwen" }] });
  const { messages, tools } = generateRequest({}, "how long is this");
  const request = { model: "svc-qwen", messages, tools, toolChoice: undefined, reasoning: undefined, tenant: "" };
  const counted = await node.backend.countTokens(request);
  expect(finishedOf(await whole(node, generateRequest({ messages }))).usage?.inputTokens).toBe(counted);
});

test("closing fails running and waiting requests", async () => {
  const node = simulator({ slots: 1 });
  const calls = [play(node, generateRequest()), play(node, generateRequest())];
  await node.clock.advance(10);
  await node.backend.close();
  for (const { over } of calls) expect(await over).toMatchObject({ reason: "ENGINE_DOWN" });
});
