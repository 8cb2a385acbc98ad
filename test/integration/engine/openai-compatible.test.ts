import { describe, expect, test } from "vitest";
import type { DialectName } from "../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import type { ErrorReason } from "../../../engine/errors.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { FinishReason, ReasoningEffort, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability, EngineKind, Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { ask, atEnd, backendOf, FOREVER, rigOf, says, textChunk } from "../../support/dialects/dialect-rig.ts";
import {
  type DialectServerOptions,
  obedient,
  type Reply,
  startDialectServer,
} from "../../support/dialects/dialect-server.ts";
import { renderChat, toTokens } from "../../support/dialects/stand-in-text.ts";
import { answerOf } from "../../support/events/answer-of.ts";
import { generateRequest, textMessage, toolOf } from "../../support/requests/generate-request.ts";

const DIALECTS: readonly DialectName[] = ["vllm", "sglang", "llama-server"];

const OFF = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
const TOOLS = [toolOf("run", { type: "object" }), toolOf("search", { type: "object" })];

describe.each(DIALECTS)("a node in front of %s", (dialect) => {
  test("a node renders the conversation, sends its tokens, and finds reasoning, text and usage", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(says({ reasoning: ["Let me", " see."], text: ["Hel", "lo."], cachedTokens: 16 }));
    const { started, blocks, finished, code } = await ask(rig, {
      reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED },
    });
    expect(code).toBe(0);
    const prompt = toTokens(renderChat(rig.engine.rendered.at(-1) ?? {}));
    const { token_ids, input_ids, prompt: completed } = rig.engine.bodies.at(-1) ?? {};
    expect(token_ids ?? input_ids ?? completed).toEqual(prompt);
    expect(started?.inputTokens).toBe(prompt.length);
    expect(blocks).toEqual([
      { kind: "reasoning", text: "Let me see.", complete: true },
      { kind: "text", text: "Hello.", complete: true },
    ]);
    expect(finished?.reason).toBe(FinishReason.STOP);
    // The marks are one token each, other text one by character; the end token does not count.
    const reasoningTokens = "<\nLet me see.\n>".length;
    expect(finished?.usage).toEqual({
      inputTokens: prompt.length,
      cachedInputTokens: 16,
      cacheWriteTokens: 0,
      outputTokens: reasoningTokens + "\n\nHello.".length,
      reasoningTokens,
    });
  });

  test("a node finds parallel calls with their arguments, and gives each an id", async () => {
    const rig = await rigOf(dialect);
    const calls = [
      { name: "run", arguments: ['{"cmd":', ' "ls"}'] },
      { name: "search", arguments: ["{}"] },
    ];
    rig.engine.next(says({ text: ["I look."], calls }));
    const { blocks, finished } = await ask(rig, { tools: TOOLS });
    const id = expect.stringMatching(/^call_[0-9a-f]{24}$/);
    expect(blocks).toEqual([
      { kind: "text", text: "I look.", complete: true },
      { kind: "toolCall", id, name: "run", text: '{"cmd": "ls"}', complete: true },
      { kind: "toolCall", id, name: "search", text: "{}", complete: true },
    ]);
    expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
    expect(new Set(blocks.map((block) => block.id)).size).toBe(3);
  });

  test("a node continues an answer that another engine began, from its last whole character", async () => {
    const rig = await rigOf(dialect);
    const [model] = (await rig.client.describe()).models;
    expect(model?.capabilities).toContain(Capability.CONTINUATION);
    const begun = [...toTokens("<think>\nWell.\n</think>\n\nOne, tw"), 0xfffd];
    const continuation = { modelRevision: model?.revision ?? "", tokens: begun, callIds: [] };
    rig.engine.next(says({ text: ["\u00f6o."] }));
    const reading = rig.client.generate(generateRequest({ continuation, resumable: true }));
    expect((await reading.ended).code).toBe(0);
    const { blocks, finished, started } = answerOf(reading.events);
    expect(blocks.map(({ text }) => text)).toEqual(["Well.", "One, tw\u00f6o."]);
    const given = begun.slice(0, -1);
    expect(reading.tokens).toEqual([...given, ...toTokens("\u00f6o.")]);
    expect(finished?.usage?.outputTokens).toBe(given.length + 3);
    const { token_ids, input_ids, prompt } = rig.engine.bodies.at(-1) ?? {};
    const sent = token_ids ?? input_ids ?? prompt;
    expect(Array.isArray(sent) && sent.slice(started?.inputTokens)).toEqual(given);
    const other = { ...continuation, modelRevision: "other" };
    const seeded = { temperature: 1, seed: 7, stop: [], logitBias: {} };
    expect((await ask(rig, { continuation: other })).reason).toBe("REVISION_MISMATCH");
    expect((await ask(rig, { continuation, sampling: seeded })).reason).toBe("UNSUPPORTED_FEATURE");
    const untold = rig.client.generate(generateRequest({ resumable: true, sampling: seeded }));
    expect((await untold.ended).code).toBe(0);
    expect(untold.tokens).toEqual([]);
  });

  test("a node continues under a frequency penalty with a bias for each token so far, as the engine counts those as prompt", async () => {
    const rig = await rigOf(dialect);
    const [model] = (await rig.client.describe()).models;
    const tokens = [...toTokens("<think>\n</think>\n\nabba")];
    const continuation = { modelRevision: model?.revision ?? "", tokens, callIds: [] };
    const [a = 0, b = 0] = toTokens("ab");
    rig.engine.next(says({ text: ["."] }));
    const sampling = { temperature: 0, frequencyPenalty: 0.5, stop: [], logitBias: { [a]: 3 } };
    expect((await ask(rig, { continuation, resumable: true, sampling })).code).toBe(0);
    const body = rig.engine.bodies.at(-1);
    const { logit_bias: sent } = Object(body?.sampling_params ?? body);
    const bias = Array.isArray(sent) ? Object.fromEntries(sent) : sent;
    expect(bias).toMatchObject({ [a]: 2, [b]: -1 });
  });

  test("a node continues a constrained answer under the grammar of its rest", async () => {
    const grammars: string[] = [];
    const rig = await rigOf(dialect, {
      model(asked) {
        grammars.push(asked.grammar);
        return asked.grammar.includes("A12B") ? obedient(asked) : says({ text: ['is"}'] });
      },
    });
    const [model] = (await rig.client.describe()).models;
    const continuation = { modelRevision: model?.revision ?? "", tokens: [...toTokens('{"city": "Par')], callIds: [] };
    const schemaJson = '{"type":"object","properties":{"city":{"enum":["Paris","Park"]}},"required":["city"]}';
    const outputConstraint = { kind: { $case: "jsonSchema", value: { name: "c", schemaJson, strict: true } } } as const;
    const { blocks, code } = await ask(rig, { continuation, outputConstraint, reasoning: OFF });
    expect({ code, text: blocks[0]?.text }).toEqual({ code: 0, text: '{"city": "Paris"}' });
    expect(grammars.at(-1)?.split("\n")[0]).toMatch(/^root ::= .*is.*/);
    expect(grammars.at(-1)?.split("\n")[0]).not.toContain("city");
    const impossible = { ...continuation, tokens: [...toTokens('{"town')] };
    expect((await ask(rig, { continuation: impossible, outputConstraint, reasoning: OFF })).reason).toBe(
      "INVALID_REQUEST",
    );
  });

  test("a node refuses a fixed form for an answer that the caller has begun", async () => {
    const rig = await rigOf(dialect);
    const messages = [textMessage(Role.USER, "go"), textMessage(Role.ASSISTANT, '{"a"')];
    const outputConstraint = { kind: { $case: "jsonObject", value: {} } } as const;
    expect((await ask(rig, { messages, outputConstraint })).reason).toBe("UNSUPPORTED_FEATURE");
  });

  test("a node closes a reasoning whose budget is spent, and continues behind it", async () => {
    const rig = await rigOf(dialect);
    rig.engine.next(
      { kind: "stream", data: ["<think>\nLet", " me see and see"].map(textChunk), end: "never" },
      says({ text: ["done"] }),
    );
    const budgetTokens = "<\nLet me".length;
    const { blocks, finished } = await ask(rig, {
      reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED, budgetTokens },
    });
    expect(blocks.map(({ text }) => text)).toEqual(["Let me", "done"]);
    expect(finished?.reason).toBe(FinishReason.STOP);
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
  ])("a node never ends cleanly when the engine %s", async (_what, reply, reason, code) => {
    const rig = await rigOf(dialect);
    rig.engine.next(reply);
    const answer = await ask(rig);
    // llama-server has no name for an aborted request.
    const isUnnamed = reason === "ENGINE_ABORTED" && dialect === "llama-server";
    expect(answer).toMatchObject(isUnnamed ? { whole: false, code: 13 } : { whole: false, reason, code });
    await expect(rig.node.gauge("svc_engine_slots_busy")).resolves.toBe(0);
  });

  test("a node refuses an impossible schema before the engine generates", async () => {
    const rig = await rigOf(dialect);
    const broken = { type: "object", properties: { a: { type: "string", pattern: "[" } }, required: ["a"] };
    const toolChoice = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
    const asked = rig.engine.bodies.length;
    const tools = [{ ...toolOf("run", broken), strict: true }];
    expect(await ask(rig, { tools, toolChoice })).toMatchObject({ code: 3, reason: "INVALID_SCHEMA" });
    expect(rig.engine.bodies.length).toBe(asked);
  });

  test("a node closes the engine's connection when the caller leaves", async () => {
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

  test("a node counts tokens with the request's template variables", async () => {
    let least = 0;
    const rig = await rigOf(dialect, { tokens: () => least });
    least = 1_234;
    const { inputTokens } = await rig.client.countTokens({
      model: "svc-qwen",
      messages: [textMessage(Role.USER, "hello")],
      tools: TOOLS,
      toolChoice: undefined,
      cache: undefined,
      tenant: "",
      reasoning: { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED },
    });
    expect(inputTokens).toBe(1_234);
    expect(rig.engine.rendered.at(-1)).toMatchObject({
      messages: [{ role: "user", content: "hello" }],
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(rig.engine.rendered.at(-1)?.tools).toHaveLength(2);
  });

  test("a node sends system messages only where the engine's template accepts them, as probed at the start", async () => {
    const rig = await rigOf(dialect, { refuses: (roles) => roles.lastIndexOf("system") > 0 });
    const messages = [
      textMessage(Role.SYSTEM, "be"),
      textMessage(Role.SYSTEM, "brief"),
      textMessage(Role.USER, "go"),
      textMessage(Role.SYSTEM, "now"),
      textMessage(Role.USER, "stop"),
    ];
    expect((await ask(rig, { messages })).code).toBe(0);
    expect(rig.engine.rendered.at(-1)?.messages).toEqual([
      { role: "system", content: "be\nbrief" },
      { role: "user", content: "go" },
      { role: "user", content: "<system>\nnow\n</system>" },
      { role: "user", content: "stop" },
    ]);
  });

  test("a node describes image input where the engine renders images to what goes back to it", async () => {
    const family = await rigOf(dialect, {}, { profile: loadProfile("qwen3.5"), images: undefined });
    const modalities = dialect === "vllm" ? [Modality.TEXT, Modality.IMAGE] : [Modality.TEXT];
    expect((await family.client.describe()).models[0]?.inputModalities).toEqual(modalities);
    const untried = await rigOf(dialect, {}, { profile: loadProfile("qwen3.5"), images: false });
    expect((await untried.client.describe()).models[0]?.inputModalities).toEqual([Modality.TEXT]);
  });

  test("a node serves dozens of concurrent generations without a warning of leaks", async () => {
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

  test("a node does not start where the profile has calls and the engine's template shows no tools", async () => {
    const engine = await startDialectServer(dialect, { dropsTools: true });
    const backend = backendOf(engine, dialect, { profile: loadProfile("mistral") });
    atEnd(engine.stop, () => backend.close());
    await expect(backend.start(FOREVER)).rejects.toMatchObject({
      reason: "ENGINE_DOWN",
      message: expect.stringContaining("shows the model no tools"),
    });
  });

  test("a node writes tools and calls as text for a profile without calls of its own", async () => {
    const rig = await rigOf(dialect, { dropsTools: true }, { profile: loadProfile("generic"), spellings: [] });
    expect(rig.backend.startNotes()).toEqual([]);
    expect((await rig.client.describe()).models[0]?.capabilities).toContain(Capability.FORCED_TOOL_CHOICE);
    rig.engine.next(says({ calls: [{ name: "run", arguments: ['{"cmd":', ' "ls"}'] }] }));
    const { blocks } = await ask(rig, { tools: TOOLS });
    expect(blocks).toMatchObject([{ kind: "toolCall", name: "run", text: '{"cmd": "ls"}' }]);
    const { tools, messages } = rig.engine.rendered.at(-1) ?? {};
    expect(tools).toBeUndefined();
    expect(messages).toMatchObject([{ role: "system", content: expect.stringContaining('"name": "search"') }, {}]);
  });

  test("a node offers no constraints where the engine ignores grammars", async () => {
    const rig = await rigOf(dialect, { model: () => says({ text: ["as I like"] }) });
    const capabilities = (await rig.client.describe()).models[0]?.capabilities;
    expect(capabilities).toContain(Capability.TOOLS);
    expect(capabilities).not.toContain(Capability.JSON_SCHEMA);
    expect(capabilities).not.toContain(Capability.STRICT_TOOLS);
  });

  test("a node describes the findings of the probe", async () => {
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
        Capability.REASONING_BUDGET,
        Capability.JSON_SCHEMA,
        Capability.EXACT_TOKEN_COUNT,
        Capability.CACHE_ISOLATION,
      ]),
    );
  });

  test.each<[string, Partial<DialectServerOptions>, RegExp]>([
    ["does not render", { renderStatus: 403 }, /does not render .*(scale-out|\/v1\/tokenize|--jinja)/],
    [
      "does not generate",
      { model: () => ({ kind: "status", status: 500, body: "Internal Server Error" }) },
      /does not generate from tokens \(ENGINE_ERROR/,
    ],
  ])("a node does not become ready when the engine %s", async (_what, options, message) => {
    const engine = await startDialectServer(dialect, options);
    atEnd(engine.stop);
    const backend = backendOf(engine, dialect);
    await expect(backend.start(FOREVER)).rejects.toThrow(message);
    expect(backend.describe().models[0]?.capabilities).toEqual([]);
    await backend.close();
  });
});

describe("the revision", () => {
  const revisionOf = async (dialect: DialectName, fields: Parameters<typeof rigOf>[2] = {}) => {
    const { backend } = await rigOf(dialect, {}, fields);
    return backend.describe().models[0]?.revision;
  };

  test("the revision is the same beside different engines where the weights have one name and prompts are written alike", async () => {
    const [one, ...others] = await Promise.all(DIALECTS.map((dialect) => revisionOf(dialect, { weights: "w" })));
    expect(one).toMatch(/^[0-9a-f]{16}$/);
    expect(new Set(others)).toEqual(new Set([one]));
    expect(await revisionOf("vllm", { weights: "v" })).not.toBe(one);
    expect(await revisionOf("vllm", { weights: "w", profile: loadProfile("qwen3.5") })).not.toBe(one);
  });

  test("the revision differs beside different engines where the weights have no name", async () => {
    const found = await Promise.all(DIALECTS.map((dialect) => revisionOf(dialect)));
    expect(new Set(found).size).toBe(DIALECTS.length);
  });
});

describe("the model's special tokens", () => {
  const MARK = "<|im_end|>";
  const BROKEN = "<\u2060|im_end|>";

  test.each(DIALECTS)("written by a caller reach %s broken, and are restored in the answer", async (dialect) => {
    // vLLM reports them; for the others they are configured.
    const rig = await rigOf(dialect, { spellings: [MARK] }, dialect === "vllm" ? {} : { spellings: [MARK] });
    const calls = [{ name: "run", arguments: ['{"a":"<', "\u2060|im", '_end|>"}'] }];
    rig.engine.next(says({ text: ["Read <", "\u2060|im_", "end|>."], calls }));
    const messages = [textMessage(Role.USER, `Write ${MARK}.`)];
    const { blocks } = await ask(rig, { messages, tools: TOOLS });
    expect(blocks.map(({ text }) => text)).toEqual([`Read ${MARK}.`, JSON.stringify({ a: MARK })]);
    expect(rig.engine.rendered.at(-1)?.messages).toEqual([{ role: "user", content: `Write ${BROKEN}.` }]);
    await rig.client.countTokens({ ...generateRequest({ messages }), tenant: "t" });
    expect(rig.engine.rendered.at(-1)?.messages).toEqual([{ role: "user", content: `Write ${BROKEN}.` }]);
  });

  test("the model's special tokens that are not reported are the profile's alone, with a warning to the operator", async () => {
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
      expect(engine.rendered.at(-1)?.messages).toEqual([{ role: "user", content: `<\u2060/think>${MARK}` }]);
    }
  });
});
