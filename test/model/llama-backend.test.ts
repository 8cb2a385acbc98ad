import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import type { LlamaOptions } from "../../engine/backends/llama/runtime/llama-options.ts";
import { FinishReason, ReasoningEffort, ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role, ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { Capability, ModelState } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { backendConformance } from "../support/engine/backend-conformance.ts";
import { assistant, call, declaration, part, system, tool, user } from "../support/engine/canonical.ts";
import {
  ask,
  DEMO_MODEL,
  missing,
  never,
  OPTIONS,
  request,
  sharedBackend,
  startBackend,
} from "../support/engine/demo-engine.ts";
import { workHere } from "../support/engine/work-here.ts";

const COUNT = "Count from 1 to 12.";
const NUMBERS = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12";
const sampling = (fields: object) => ({ temperature: 0, stop: [], logitBias: {}, ...fields });
const reason = (wanted: string) => expect.objectContaining({ reason: wanted });

describe.skipIf(missing !== "")("the demonstration model in process", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await sharedBackend();
  });

  const idle = () => expect(backend.load()).toMatchObject({ slots: 3, busySlots: 0, waiting: 0 });

  test("the demonstration model in process describes itself before loading, too", () => {
    const { models } = new LlamaBackend(OPTIONS, workHere).describe();
    expect(models).toMatchObject([{ id: "demo", state: ModelState.LOADING }]);
    expect(backend.describe().models[0]?.revision).toMatch(/^[0-9a-f]{16}$/);
  });

  test("a plain question gets a complete answer with real counts", async () => {
    const reply = await ask(backend, request(COUNT));
    expect(reply.text).toBe(NUMBERS);
    expect(reply.finished.reason).toBe(FinishReason.STOP);
    expect(reply.events[0]?.kind).toMatchObject({ $case: "started", value: { nodeId: "test", inputTokens: 17 } });
    const sampling = reply.events[0]?.kind?.$case === "started" ? reply.events[0].kind.value.sampling : undefined;
    expect(sampling).toMatchObject({
      temperature: 0,
      topP: expect.any(Number),
      presencePenalty: 0,
      frequencyPenalty: 0,
    });
    expect(reply.finished.usage).toMatchObject({ inputTokens: 17, outputTokens: 37, reasoningTokens: 0 });
    idle();
  });

  test("reasoning is a separate block, counted, and ended by the budget", async () => {
    const think = (budgetTokens?: number) =>
      request("Who are you exactly?", { reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens } });
    const free = await ask(backend, think());
    expect(free.reasoning).toContain("who I am");
    expect(free.text).toContain("demonstration model");
    expect(free.finished.usage?.reasoningTokens).toBeGreaterThan(10);
    const short = await ask(backend, think(3));
    expect(free.reasoning.startsWith(short.reasoning)).toBe(true);
    expect(short.finished.usage?.reasoningTokens).toBeLessThan(10);
    expect(short.text).toContain("demonstration model");
  });

  test("log probabilities belong to the tokens of the text", async () => {
    const reply = await ask(backend, request(COUNT, { sampling: sampling({ topLogprobs: 2 }) }));
    const logprobs = reply.events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs : []));
    expect(logprobs.map(({ token }) => token).join("")).toBe(NUMBERS);
    expect(Buffer.concat(logprobs.map(({ tokenBytes }) => tokenBytes)).toString()).toBe(NUMBERS);
    for (const { logprob, alternatives } of logprobs) {
      expect(logprob).toBeLessThanOrEqual(0.001);
      expect(alternatives).toHaveLength(2);
      expect(alternatives[0]?.logprob).toBeCloseTo(logprob, 3);
    }
  });

  test("a biased token is avoided, the end of the answer too; an unknown one is refused", async () => {
    const [first] = (await ask(backend, request(COUNT, { sampling: sampling({ topLogprobs: 0 }), maxOutputTokens: 1 })))
      .text;
    expect(first).toBe("1");
    const digitOne = 16;
    const biased = await ask(backend, request(COUNT, { sampling: sampling({ logitBias: { [digitOne]: -100 } }) }));
    expect(biased.text).not.toContain("1");
    const [endOfText, imEnd] = [2549, 2551];
    const endless = sampling({ logitBias: { [endOfText]: -100, [imEnd]: -100 } });
    const long = await ask(backend, request("Hello!", { sampling: endless, maxOutputTokens: 200 }));
    expect(long.finished.reason).toBe(FinishReason.MAX_OUTPUT_TOKENS);
    const unknown = request(COUNT, { sampling: sampling({ logitBias: { 999999: 1 } }) });
    await expect(ask(backend, unknown)).rejects.toEqual(reason("INVALID_REQUEST"));
    idle();
  });

  test("an answer does not end before its least tokens, and behind them where the model ends it", async () => {
    const full = await ask(backend, {
      ...request(COUNT),
      maxOutputTokens: 60,
      sampling: sampling({ minOutputTokens: 60 }),
    });
    expect(full.finished).toMatchObject({ reason: FinishReason.MAX_OUTPUT_TOKENS, usage: { outputTokens: 60 } });
    const free = await ask(backend, { ...request(COUNT), sampling: sampling({ minOutputTokens: 45 }) });
    expect(free.finished.reason).toBe(FinishReason.STOP);
    expect(free.finished.usage?.outputTokens).toBeGreaterThanOrEqual(45);
    const short = await ask(backend, { ...request(COUNT), sampling: sampling({ minOutputTokens: 5 }) });
    expect(short.text).toBe(NUMBERS);
  });

  test("the context window can be filled to the last token, where the answer is truncated", async () => {
    const small = await startBackend({ contextTokens: 300, slots: 1, batchTokens: 64 });
    const padding = await small.countTokens(request(""), never());
    const wanted = (words: number) => request(" a".repeat(words), { sampling: sampling({ logitBias: {} }) });
    const full = await ask(small, wanted(299 - padding));
    expect(full.finished.usage).toMatchObject({ inputTokens: 299, outputTokens: 1 });
    expect([FinishReason.CONTEXT_WINDOW, FinishReason.STOP]).toContain(full.finished.reason);
    await expect(ask(small, wanted(300 - padding))).rejects.toEqual(reason("CONTEXT_WINDOW_EXCEEDED"));
    await small.close();
  });

  test("a family of code has its prompts written by it, but for an operator's own template", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-template-"));
    const templatePath = join(folder, "chat.jinja");
    const written =
      "<｜begin▁of▁sentence｜>{% for m in messages %}<｜User｜>{{ m.content }}{% endfor %}<｜Assistant｜></think>";
    const count = async (template: string | undefined, profile = "deepseek-v3.2") => {
      if (template !== undefined) writeFileSync(templatePath, template);
      const started = await startBackend({ profile, ...(template !== undefined && { templatePath }) });
      const counted = await started.countTokens(request("Hello, and good day."), never());
      await started.close();
      return counted;
    };
    try {
      expect(await count(undefined)).toBe(await count(written));
      expect(await count(`${written} and more words`)).toBeGreaterThan(await count(undefined));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("a count finds the tokens of an answer under its salt, and under no other", async () => {
    const salted = (isolationSalt: string) => ({ cache: { affinityKey: "", isolationSalt, ttl: undefined } });
    const long = `${COUNT} ${"Count on. ".repeat(30)}`;
    const answered = await ask(backend, request(long, { ...salted("one"), maxOutputTokens: 1 }));
    const tokenized = async (isolationSalt: string) => {
      const before = backend.load().promptTokens?.tokenized ?? 0;
      const counted = await backend.countTokens(request(long, salted(isolationSalt)), never());
      expect(counted).toBe(answered.finished.usage?.inputTokens);
      return (backend.load().promptTokens?.tokenized ?? 0) - before;
    };
    expect(await tokenized("one")).toBeLessThan(20);
    expect(await tokenized("other")).toBeGreaterThan(60);
  });

  test("the prefix cache is reported, does not change the answer, and is not shared across salts or tenants", async () => {
    const wanted = (isolationSalt: string, tenant = "t") => {
      const cache = { affinityKey: "", isolationSalt, ttl: undefined };
      return request([system("You count numbers. ".repeat(60)), user(COUNT)], { tenant, cache });
    };
    const cold = await ask(backend, wanted("one"));
    const warm = await ask(backend, wanted("one"));
    const inputTokens = cold.finished.usage?.inputTokens ?? 0;
    expect([cold.cached, warm.cached]).toEqual([0, inputTokens - 1]);
    expect(warm.text).toBe(cold.text);
    expect((await ask(backend, wanted("two"))).cached).toBe(0);
    expect((await ask(backend, wanted("one", "other"))).cached).toBe(0);
  });
});

describe.skipIf(missing !== "")("a tool that is loaded in mid-conversation", () => {
  const PAGE = {
    type: "object",
    properties: { url: { enum: ["a.example", "b.example"] } },
    required: ["url"],
    additionalProperties: false,
  };
  const SEARCH = tool("search", "Finds tools.");
  const FETCH = { ...tool("fetch", "Gets a page.", PAGE), strict: true, deferred: true };
  const BEFORE = [system("Be brief. ".repeat(20)), user("Get the page.")];
  const RESULT = { callId: "call_1", name: "search", content: [declaration("fetch")], isError: false };
  const AFTER = [
    ...BEFORE,
    assistant(call("search", '{"city":"page"}')),
    { role: Role.TOOL, parts: [part({ $case: "toolResult", value: RESULT })] },
  ];
  const asked = (messages: readonly Message[], name: string) => {
    const toolChoice = { ...ToolChoice.create(), mode: ToolChoiceMode.NAMED, name };
    return request(messages, { tools: [SEARCH, FETCH], toolChoice, maxOutputTokens: 60 });
  };

  test("a tool that is loaded in mid-conversation keeps the cached prompt, and can be called from there on", async () => {
    const backend = await sharedBackend();
    await expect(ask(backend, asked(BEFORE, "fetch"))).rejects.toThrow(reason("INVALID_REQUEST"));
    const { finished } = await ask(backend, asked(BEFORE, "search"));
    const inputTokens = finished.usage?.inputTokens ?? 0;
    const loaded = await ask(backend, asked(AFTER, "fetch"));
    expect(loaded.cached).toBeGreaterThanOrEqual(0.95 * inputTokens);
    expect(loaded.calls).toEqual([
      { name: "fetch", arguments: expect.stringMatching(/^\{"url": ?"[ab]\.example"\}$/) },
    ]);
    const counted = await backend.countTokens({ ...asked(AFTER, "fetch"), tenant: "t" }, never());
    expect(counted).toBe(loaded.finished.usage?.inputTokens);
  });
});

describe.skipIf(missing !== "")("a failed start reports the reason", () => {
  test.each([
    ["no-such-file.gguf", "The model file no-such-file.gguf cannot be read."],
    [import.meta.filename, expect.any(String)],
  ])("a failed start reports the reason of the model file %s", async (modelPath, message) => {
    const start = new LlamaBackend({ ...OPTIONS, modelPath }, workHere).start(never());
    await expect(start).rejects.toMatchObject({ reason: "ENGINE_DOWN", message });
  });
});

const SETUPS: readonly (readonly [string, Partial<LlamaOptions>])[] = [
  ["as shipped", {}],
  ["without flash attention", { flashAttention: false }],
  ["with flash attention", { flashAttention: true }],
  ["with GPU layers but no accelerator", { gpuLayers: 2 }],
];

test.skipIf(missing !== "").each(SETUPS)("a node %s answers, and reports its setup", async (_name, options) => {
  const backend = await startBackend({ slots: 1, gpu: false, ...options });
  try {
    const { text } = await ask(backend, request("Hello!", { maxOutputTokens: 8 }));
    expect(text).not.toBe("");
    const attention = { auto: "where it can", true: "on", false: "off" }[`${options.flashAttention ?? "auto"}`];
    const setup = `CPU, KV memory 0.0 GiB for 2 times 2048 tokens, threads 1, flash attention ${attention}, model file mapped`;
    expect(
      backend
        .describe()
        .engineVersion.replace(/^llama\.cpp [\w.]+; /, "")
        .replace(/0\.0\d/, "0.0"),
    ).toBe(setup);
  } finally {
    await backend.close();
  }
});

const folder = mkdtempSync(join(tmpdir(), "llama-profile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WEATHER = tool("get_weather", "Get the weather for a city");
const QUESTION = request("What is the weather in Ljubljana?", { tools: [WEATHER] });

async function capabilitiesWith(profile: string | undefined): Promise<readonly Capability[]> {
  const backend = await startBackend({ profile });
  try {
    return backend.describe().models[0]?.capabilities ?? [];
  } finally {
    await backend.close();
  }
}

describe.skipIf(missing !== "")("the profile of the demonstration model", () => {
  test("the profile of the demonstration model is found by its template", async () => {
    const capabilities = await capabilitiesWith(undefined);
    expect(capabilities).toEqual(await capabilitiesWith("hermes-thinking"));
    expect(capabilities).toEqual(
      expect.arrayContaining([Capability.TOOLS, Capability.REASONING, Capability.REASONING_OFF]),
    );
  });

  test("the profile of the demonstration model can be named, without the marks that the model does not have", async () => {
    const backend = await startBackend({ profile: "kimi-k2-thinking" });
    try {
      expect(backend.startNotes()).toEqual([
        `the chat template of the model's file does not write calls like "Kimi-K2-Thinking, Kimi-K2.5": tools, calls and results are written as text, in a generic form`,
      ]);
      expect(backend.describe().models[0]?.capabilities).toContain(Capability.TOOLS);
      const toolChoice = ToolChoice.fromPartial({ mode: ToolChoiceMode.REQUIRED });
      expect((await ask(backend, { ...QUESTION, toolChoice })).calls).toMatchObject([{ name: "get_weather" }]);
    } finally {
      await backend.close();
    }
  });

  test("the profile of the demonstration model can be a file, whose marks are then searched", async () => {
    const profile = join(folder, "own.yaml");
    const calls = '{ form: json, open: "<tool_call>", close: "</tool_call>", afterOpen: "\\n", beforeClose: "\\n" }';
    writeFileSync(profile, `family: Own\nthinking: { default: always }\ntoolCall: ${calls}\n`);
    const backend = await startBackend({ profile });
    try {
      expect((await ask(backend, QUESTION)).calls).toEqual([
        { name: "get_weather", arguments: '{"city": "Ljubljana"}' },
      ]);
      const thinking = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED };
      const reply = await ask(backend, request("Who are you exactly?", { reasoning: thinking }));
      expect([reply.reasoning, reply.text.includes("</think>")]).toEqual(["", true]);
    } finally {
      await backend.close();
    }
  });

  test("the profile of the demonstration model is that of a template by file, which counts instead of the model's own", async () => {
    const templatePath = join(folder, "plain.jinja");
    writeFileSync(templatePath, "{% for m in messages %}{{ m.role + ': ' + m.content }}\n{% endfor %}assistant: ");
    const plain = await startBackend({ templatePath });
    expect(plain.startNotes().join()).toContain("has no tools");
    await plain.close();
    await expect(startBackend({ templatePath: join(folder, "none.jinja") })).rejects.toThrow(
      /backend\.templatePath: .* cannot be read/,
    );
  });

  test("the profile of the demonstration model is reported at the start, with the lost features, if no template fits", async () => {
    const modelPath = join(folder, "foreign.gguf");
    const file = readFileSync(DEMO_MODEL, "latin1");
    writeFileSync(modelPath, file.replaceAll("<tool_call>", "<made_call>"), "latin1");
    const foreign = await startBackend({ modelPath });
    try {
      expect(foreign.startNotes()).toEqual([
        `no profile fits the chat template of the model's file, which is taken for one of "Hermes, ChatML, with reasoning"; backend.profile may name one`,
        `the chat template of the model's file does not write calls like "Hermes, ChatML, with reasoning": tools, calls and results are written as text, in a generic form`,
      ]);
      expect(foreign.describe().models[0]?.capabilities).toContain(Capability.TOOLS);
    } finally {
      await foreign.close();
    }
    const known = await startBackend();
    expect(known.startNotes()).toEqual([]);
    await known.close();
  });
});

describe.skipIf(missing !== "")("llama.cpp", () => {
  backendConformance("the demonstration model in process", {
    model: "demo",
    column: "llama.cpp in process",
    prompt: "Count from 1 to 12.",
    endlessPrompt: "Count from 1 to 75",
    start: async () => {
      const backend = await startBackend({ nodeId: "n1", slots: 2, queueLength: 0 });
      return { backend, stop: () => backend.close() };
    },
  });
});
