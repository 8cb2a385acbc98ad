import { describe, expect, test } from "vitest";
import type { DialectName } from "../../../engine/backends/openai-compatible/dialect/dialect.ts";
import type { CallerWork } from "../../../engine/caller-work/caller-work.ts";
import type { ErrorReason } from "../../../engine/errors.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { FinishReason, ReasoningEffort, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability, EngineKind, Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { ask, atEnd, backendOf, FOREVER, rigOf, says, textChunk } from "../../support/dialects/dialect-rig.ts";
import { type ChatBody, obedient, type Reply, startDialectServer } from "../../support/dialects/dialect-server.ts";
import { workHere } from "../../support/engine/work-here.ts";
import { generateRequest, textMessage, toolOf } from "../../support/requests/generate-request.ts";

const DIALECTS: readonly DialectName[] = ["vllm", "sglang", "llama-server"];

const TOOLS = [toolOf("run", { type: "object" }), toolOf("search", { type: "object" })];

describe.each(DIALECTS)("a node in front of %s", (dialect) => {
  test("streams reasoning, text and usage as canonical events", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(says({ reasoning: ["Let me", " see."], text: ["Hel", "lo."], cachedTokens: 16 }));
    const { started, blocks, finished, code } = await ask(rig, {
      reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED },
    });
    expect(code).toBe(0);
    expect(started?.inputTokens).toBe(40);
    expect(blocks).toEqual([
      { kind: "reasoning", text: "Let me see.", complete: true },
      { kind: "text", text: "Hello.", complete: true },
    ]);
    expect(finished?.reason).toBe(FinishReason.STOP);
    expect(finished?.usage).toEqual({
      inputTokens: 40,
      cachedInputTokens: 16,
      cacheWriteTokens: 0,
      outputTokens: 4,
      reasoningTokens: 2,
    });
  });

  test("streams parallel tool calls whose arguments arrive in fragments", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(
      says({
        text: ["I look."],
        calls: [
          { id: "a", name: "run", arguments: ["", '{"cmd":', ' "ls"}'] },
          { id: "b", name: "search", arguments: ["{}"] },
        ],
      }),
    );
    const { blocks, finished } = await ask(rig, { tools: TOOLS });
    expect(blocks).toEqual([
      { kind: "text", text: "I look.", complete: true },
      { kind: "toolCall", id: "a", name: "run", text: '{"cmd": "ls"}', complete: true },
      { kind: "toolCall", id: "b", name: "search", text: "{}", complete: true },
    ]);
    expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
  });

  test("ends a named tool choice as a tool call", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(says({ calls: [{ id: "a", name: "run", arguments: ['{"cmd"', ':"ls"}'] }] }));
    const toolChoice = { mode: ToolChoiceMode.NAMED, name: "run", disableParallelCalls: false, allowedNames: [] };
    const { blocks, finished } = await ask(rig, { tools: TOOLS, toolChoice });
    expect(blocks).toEqual([{ kind: "toolCall", id: "a", name: "run", text: '{"cmd":"ls"}', complete: true }]);
    expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
  });

  test("assigns different ids to calls with the same id", async () => {
    const rig = await rigOf(dialect);
    const call = { id: "same", name: "run", arguments: ["{}"] };
    rig.engine.next(says({ calls: [call, call] }));
    const { blocks } = await ask(rig, { tools: TOOLS });
    expect(blocks[0]?.id).toBe("same");
    expect(blocks[1]?.id).toMatch(/^call_[0-9a-f]{24}$/);
  });

  test("ends a truncated call as incomplete", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(says({ calls: [{ id: "a", name: "run", arguments: ['{"cmd": "l'] }], finish: "length" }));
    const { blocks, finished } = await ask(rig, { tools: TOOLS });
    expect(blocks).toEqual([{ kind: "toolCall", id: "a", name: "run", text: '{"cmd": "l', complete: false }]);
    expect(finished?.reason).toBe(FinishReason.MAX_OUTPUT_TOKENS);
  });

  test("reports which stop string ended the text", async () => {
    const rig = await rigOf(dialect);
    // An engine that matches the string omits it; if the node matches, the model runs past it.
    const text = dialect === "llama-server" ? ["one ST", "OP two"] : ["one "];
    rig.engine.next(says({ text, stop: "STOP" }));
    const sampling = { stop: ["STOP"], logitBias: {} };
    const { blocks, finished } = await ask(rig, { sampling });
    expect(blocks).toEqual([{ kind: "text", text: "one ", complete: true }]);
    expect(finished).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: "STOP" });
  });

  test("does not report the id of a stop token as a stop string", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(says({ text: ["one"], stop: 151_645 }));
    const { finished } = await ask(rig, { sampling: { stop: ["151645"], logitBias: {} } });
    expect(finished?.reason).toBe(FinishReason.STOP);
    expect(finished?.matchedStop).toBeUndefined();
  });

  test.each<[string, Reply, ErrorReason, number]>([
    [
      "ends without its marker",
      { kind: "stream", data: [textChunk("half")], end: "cut" },
      "ENGINE_STREAM_TRUNCATED",
      14,
    ],
    ["ends before it begins", { kind: "stream", data: [], end: "cut" }, "ENGINE_STREAM_TRUNCATED", 14],
    ["dies in mid-stream", { kind: "stream", data: [textChunk("half")], end: "reset" }, "ENGINE_STREAM_TRUNCATED", 14],
    [
      "sends no finish reason",
      { kind: "stream", data: [textChunk("half")], end: "done" },
      "ENGINE_STREAM_TRUNCATED",
      14,
    ],
    [
      "fails after the start of its answer",
      {
        kind: "stream",
        data: [
          textChunk("half"),
          { error: { message: "out of memory", type: "InternalServerError", param: null, code: 500 } },
        ],
        end: "done",
      },
      "ENGINE_ERROR",
      13,
    ],
    ["aborts the request", says({ text: ["half"], finish: "abort" }), "ENGINE_ABORTED", 10],
    ["sends invalid JSON", { kind: "stream", data: ["{half"], end: "done" }, "PROTOCOL_VIOLATION", 13],
    ["refuses", { kind: "status", status: 400, body: { error: { message: "no", code: 400 } } }, "INVALID_REQUEST", 3],
    ["is full", { kind: "status", status: 429, body: { error: { message: "slow down" } } }, "QUEUE_FULL", 8],
    ["has an error", { kind: "status", status: 500, body: "Internal Server Error" }, "ENGINE_ERROR", 13],
    ["is not up", { kind: "status", status: 503, body: { error: { message: "" } } }, "ENGINE_DOWN", 14],
  ])("never ends cleanly when the engine %s", async (_what, reply, reason, code) => {
    const rig = await rigOf(dialect);
    rig.engine.next(reply);
    const answer = await ask(rig);
    expect(answer).toMatchObject({ whole: false, reason, code });
    await expect(rig.node.gauge("svc_engine_slots_busy")).resolves.toBe(0);
  });

  test("checks schemas before the request is sent, long ones on another thread", async () => {
    const kinds: string[] = [];
    const work: Pick<CallerWork, "run"> = {
      run(kind, input, order) {
        kinds.push(kind);
        return workHere.run(kind, input, order);
      },
    };
    const rig = await rigOf(dialect, {}, { work });
    const broken = { type: "object", properties: { a: { pattern: "[" } } };
    const must = {
      toolChoice: { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] },
    };
    const refused = { code: 3, reason: "INVALID_SCHEMA" };
    expect(await ask(rig, { tools: [toolOf("run", broken)], ...must })).toMatchObject(refused);
    expect(kinds).toEqual([]);
    const long = { ...broken, description: "x".repeat(10_000) };
    expect(await ask(rig, { tools: [toolOf("run", long)], ...must })).toMatchObject(refused);
    expect(kinds).toEqual(["schemas"]);
  });

  test("closes the engine's connection when the caller leaves", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next({ kind: "stream", data: [textChunk("half")], end: "never" });
    const before = rig.engine.aborted();
    const reading = rig.client.generate(generateRequest());
    await reading.seen("blockDelta");
    reading.call.cancel();
    await rig.engine.abortedAtLeast(before + 1);
    expect((await reading.ended).code).toBe(1);
    await expect(rig.node.gauge("svc_engine_slots_busy")).resolves.toBe(0);
  });

  test("counts tokens with the request's template variables", async () => {
    const rig = await rigOf(dialect, { tokens: 1_234 });
    const { inputTokens } = await rig.client.countTokens({
      model: "svc-qwen",
      messages: [textMessage(Role.USER, "hello")],
      tools: TOOLS,
      toolChoice: undefined,
      tenant: "",
      reasoning: { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED },
    });
    expect(inputTokens).toBe(1_234);
    expect(rig.engine.counts.at(-1)).toMatchObject({
      model: "stand-in",
      messages: [{ role: "user", content: "hello" }],
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(rig.engine.counts.at(-1)?.tools).toHaveLength(2);
  });

  test("sends system messages only where the engine's template accepts them, as probed at the start", async () => {
    const rig = await rigOf(dialect, { refuses: (roles) => roles.lastIndexOf("system") > 0 });
    const messages = [
      textMessage(Role.SYSTEM, "be"),
      textMessage(Role.SYSTEM, "brief"),
      textMessage(Role.USER, "go"),
      textMessage(Role.SYSTEM, "now"),
      textMessage(Role.USER, "stop"),
    ];
    expect((await ask(rig, { messages })).code).toBe(0);
    expect(rig.engine.bodies.at(-1)?.messages).toEqual([
      { role: "system", content: "be\nbrief" },
      { role: "user", content: "go" },
      { role: "user", content: "<system>\nnow\n</system>" },
      { role: "user", content: "stop" },
    ]);
  });

  test.each([
    ["takes them", (_body: ChatBody) => undefined, [Modality.TEXT, Modality.IMAGE]],
    [
      "refuses them",
      (body: ChatBody): Reply | undefined =>
        JSON.stringify(body).includes("image_url")
          ? { kind: "status", status: 400, body: { error: { message: "At most 0 image(s) may be provided." } } }
          : undefined,
      [Modality.TEXT],
    ],
  ])("describes image input if the engine %s", async (_what, model, modalities) => {
    const options = { model: (body: ChatBody) => model(body) ?? obedient(body) };
    const family = await rigOf(dialect, options, { profile: loadProfile("qwen3.5"), images: undefined });
    expect((await family.client.describe()).models[0]?.inputModalities).toEqual(modalities);
    const untried = await rigOf(dialect, options, { profile: loadProfile("qwen3.5"), images: false });
    expect((await untried.client.describe()).models[0]?.inputModalities).toEqual([Modality.TEXT]);
  });

  test("serves dozens of concurrent generations without a warning of leaks", async () => {
    const rig = await rigOf(dialect, {}, { slots: 64 });
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on("warning", note);
    try {
      const answers = await Promise.all(Array.from({ length: 40 }, () => ask(rig)));
      expect(answers.map(({ code }) => code)).toEqual(answers.map(() => 0));
      // Node emits warnings in the next tick.
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("warning", note);
    }
    expect(warnings).toEqual([]);
  });

  test("starts beside a model that follows a schema only if the engine enforces it", async () => {
    const holds = ({ tools }: ChatBody) => Array.isArray(tools) && tools.every((tool) => tool.function.strict === true);
    const slip = says({ calls: [{ id: "a", name: "report_sum", arguments: ['{"a": 17, 25'] }] });
    const rig = await rigOf(dialect, { model: (body) => (body.tools && !holds(body) ? slip : obedient(body)) });
    expect((await rig.client.describe()).models[0]?.capabilities).toContain(Capability.TOOLS);
  });

  test("describes the findings of the probe", async () => {
    const rig = await rigOf(dialect);
    const { engineKind, engineVersion, models } = await rig.client.describe();
    const kinds = { vllm: EngineKind.VLLM, sglang: EngineKind.SGLANG, "llama-server": EngineKind.OPENAI_COMPATIBLE };
    expect(engineKind).toBe(kinds[dialect]);
    expect(engineVersion).not.toBe("");
    const [model] = models;
    expect(model).toMatchObject({ id: "svc-qwen", contextWindow: 32_768 });
    expect(model?.capabilities).toEqual(
      expect.arrayContaining([
        Capability.TOOLS,
        Capability.REASONING,
        Capability.REASONING_OFF,
        Capability.JSON_SCHEMA,
        Capability.EXACT_TOKEN_COUNT,
        Capability.CACHE_ISOLATION,
      ]),
    );
    expect(model?.capabilities.includes(Capability.REASONING_BUDGET)).toBe(dialect !== "sglang");
  });

  test.each<[string, (body: Readonly<Record<string, unknown>>) => Reply | undefined, RegExp]>([
    [
      "leaves reasoning in the text",
      (body) => (body.tools ? undefined : says({ text: ["17 + 25</think>42"] })),
      /part of the text/,
    ],
    ["reasons never", (body) => (body.tools ? undefined : says({ text: ["42"] })), /no reasoning/],
    [
      "answers a named tool with text",
      (body) => (body.tools ? says({ text: ["42"] }) : undefined),
      /required tool call/,
    ],
    [
      "leaves the markup of a call in the text",
      (body) => (body.tool_choice === "auto" ? says({ text: ["<tool_call>\n{}"] }) : undefined),
      /tool call is part of the text/,
    ],
    [
      "refuses tools",
      (body) => (body.tools ? { kind: "status", status: 400, body: { error: { message: "no" } } } : undefined),
      /a request with tools ended in INVALID_REQUEST/,
    ],
  ])("does not become ready when the engine %s", async (_what, model, message) => {
    const engine = await startDialectServer(dialect, { model: (body) => model(body) ?? obedient(body) });
    atEnd(engine.stop);
    const backend = backendOf(engine, dialect);
    await expect(backend.start(FOREVER)).rejects.toThrow(message);
    expect(backend.describe().models[0]?.capabilities).toEqual([]);
    await backend.close();
  });
});

describe("the model's special tokens", () => {
  const MARK = "<|im_end|>";
  const BROKEN = "<\u2060|im_end|>";

  test.each(DIALECTS)("written by a caller reach %s broken, and are restored in the answer", async (dialect) => {
    // vLLM reports them; for the others they are configured.
    const rig = await rigOf(dialect, { spellings: [MARK] }, dialect === "vllm" ? {} : { spellings: [MARK] });
    const args = ['{"a":"<', "\u2060|im", '_end|>"}'];
    rig.engine.next(
      says({ text: ["Read <", "\u2060|im_", "end|>."], calls: [{ id: "a", name: "run", arguments: args }] }),
    );
    const messages = [textMessage(Role.USER, `Write ${MARK}.`)];
    const { blocks } = await ask(rig, { messages, tools: TOOLS });
    expect(blocks.map(({ text }) => text)).toEqual([`Read ${MARK}.`, JSON.stringify({ a: MARK })]);
    expect(rig.engine.bodies.at(-1)?.messages).toEqual([{ role: "user", content: `Write ${BROKEN}.` }]);
    await rig.client.countTokens({ ...generateRequest({ messages }), tenant: "t" });
    expect(rig.engine.counts.at(-1)?.messages).toEqual([{ role: "user", content: `Write ${BROKEN}.` }]);
  });

  test("that are not reported are the profile's alone, with a warning to the operator", async () => {
    for (const dialect of DIALECTS) {
      const engine = await startDialectServer(dialect, { spellings: "untold" });
      const backend = backendOf(engine, dialect);
      atEnd(engine.stop, () => backend.close());
      await backend.start(FOREVER);
      expect(backend.startNotes()).toEqual([
        expect.stringMatching(/^backend: the engine does not report .*tokenizerFile/),
      ]);
      const request = generateRequest({ messages: [textMessage(Role.USER, `</think>${MARK}`)] });
      for await (const _ of backend.generate(request, FOREVER));
      expect(engine.bodies.at(-1)?.messages).toEqual([{ role: "user", content: `<\u2060/think>${MARK}` }]);
    }
  });
});
