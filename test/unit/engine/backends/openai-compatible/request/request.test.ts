import { describe, expect, test } from "vitest";
import { DIALECTS, type DialectName } from "../../../../../../engine/backends/openai-compatible/dialect/dialect.ts";
import { toJsonText } from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import {
  type RequestSettings,
  toChatRequest,
  toCountBody,
} from "../../../../../../engine/backends/openai-compatible/request/request.ts";
import { ANY_ORDER } from "../../../../../../engine/conversation/turn-rules.ts";
import { loadProfile } from "../../../../../../engine/profiles/profile.ts";
import {
  type GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Part, Role, ToolChoiceMode } from "../../../../../../proto/gen/svc/inference/v1/messages.ts";
import { MARKS, PLACES } from "../../../../../support/dialects/injections.ts";
import { generateRequest, toolOf } from "../../../../../support/requests/generate-request.ts";

function settingsOf(dialect: DialectName, fields: Partial<RequestSettings> = {}, profile = "qwen3"): RequestSettings {
  return {
    dialect: DIALECTS[dialect],
    servedModel: "served",
    profile: loadProfile(profile),
    turns: ANY_ORDER,
    marks: SpelledMarks.none,
    images: false,
    priorities: true,
    thinkingBudget: true,
    sharedCache: false,
    promptTokens: false,
    ...fields,
  };
}

/** The body as the engine parses it. */
function bodyOf(settings: RequestSettings, fields: Partial<GenerateRequest> = {}): Record<string, unknown> {
  return JSON.parse(toJsonText(toChatRequest(generateRequest(fields), settings, "r1-x").body));
}

const part = (kind: Part["kind"]): Part => ({ kind, cacheBreakpoint: undefined });
const say = (text: string) => part({ $case: "text", value: { text } });
const TOOLS = [toolOf("run", { type: "object" }), toolOf("search", { type: "object" })];
const choice = (mode: ToolChoiceMode, fields: object = {}) => ({
  toolChoice: { mode, name: "", disableParallelCalls: false, allowedNames: [], ...fields },
});
const think = (effort: ReasoningEffort, budgetTokens?: number) => ({
  reasoning: { mode: ReasoningMode.ENABLED, effort, budgetTokens },
});
const SAMPLING = {
  temperature: 0.5,
  topP: 0.9,
  topK: 0,
  minP: 0.05,
  frequencyPenalty: 0.1,
  presencePenalty: 0.2,
  repetitionPenalty: 1.1,
  seed: 7,
  stop: ["END"],
  logitBias: { 5: -1 },
};
const EVERYTHING: Partial<GenerateRequest> = {
  tools: TOOLS,
  sampling: SAMPLING,
  maxOutputTokens: 100,
  priority: 3,
  tenant: "t1",
  cache: { affinityKey: "k", isolationSalt: "s", ttl: undefined },
  ...think(ReasoningEffort.LOW),
  ...choice(ToolChoiceMode.AUTO, { disableParallelCalls: true }),
  outputConstraint: { kind: { $case: "jsonObject", value: {} } },
};

test.each<[DialectName, Record<string, unknown>]>([
  [
    "vllm",
    {
      max_completion_tokens: 100,
      top_k: -1,
      repetition_penalty: 1.1,
      stop: ["END"],
      thinking_token_budget: 1_024,
      cache_salt: expect.stringMatching(/^[\w-]{43}$/),
      session_id: expect.stringMatching(/^[\w-]{43}$/),
      priority: -3,
      request_id: "r1-x",
      stream_options: { include_usage: true, continuous_usage_stats: true },
    },
  ],
  [
    "sglang",
    {
      max_completion_tokens: 100,
      top_k: -1,
      repetition_penalty: 1.1,
      stop: ["END"],
      separate_reasoning: true,
      stream_reasoning: true,
      cache_salt: expect.stringMatching(/^[\w-]{43}$/),
      session_id: expect.stringMatching(/^[\w-]{43}$/),
      priority: 3,
      rid: "r1-x",
      stream_options: { include_usage: true, continuous_usage_stats: true },
    },
  ],
  [
    "llama-server",
    {
      max_tokens: 100,
      top_k: 0,
      repeat_penalty: 1.1,
      thinking_budget_tokens: 1_024,
      reasoning_format: "auto",
      cache_prompt: false,
      return_progress: true,
      timings_per_token: true,
      stream_options: { include_usage: true },
    },
  ],
])("%s is sent exactly the fields of its dialect", (dialect, own) => {
  expect(bodyOf(settingsOf(dialect), EVERYTHING)).toEqual({
    model: "served",
    messages: [{ role: "user", content: "hello" }],
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    min_p: 0.05,
    frequency_penalty: 0.1,
    presence_penalty: 0.2,
    seed: 7,
    logit_bias: { 5: -1 },
    tools: TOOLS.map(({ name }) => ({ type: "function", function: { name, parameters: { type: "object" } } })),
    tool_choice: "auto",
    parallel_tool_calls: false,
    response_format: { type: "json_object" },
    chat_template_kwargs: { enable_thinking: true },
    ...own,
  });
});

test("absent fields are left to the engine", () => {
  const body = bodyOf(settingsOf("vllm", { priorities: false }), { priority: 5 });
  for (const key of [
    "temperature",
    "top_k",
    "seed",
    "stop",
    "tools",
    "max_completion_tokens",
    "priority",
    "session_id",
  ]) {
    expect(body).not.toHaveProperty(key);
  }
});

test("tenants have different salts, and a tenant always the same", () => {
  const salt = (tenant: string, isolationSalt: string) =>
    bodyOf(settingsOf("vllm"), { tenant, cache: { affinityKey: "", isolationSalt, ttl: undefined } }).cache_salt;
  expect(salt("a", "s")).toBe(salt("a", "s"));
  expect(new Set([salt("a", "s"), salt("b", "s"), salt("a", "t"), salt("as", "")]).size).toBe(4);
});

describe("tools", () => {
  const asked = (fields: Partial<GenerateRequest>) =>
    toChatRequest(generateRequest({ tools: TOOLS, ...fields }), settingsOf("vllm"), undefined);

  test("schemas and arguments are sent as the caller wrote them", () => {
    const schema = '{ "type":"object", "properties": {"n": {"const": 1.0}} }';
    const tool = { ...toolOf("run", {}), parametersJsonSchema: schema, strict: true, description: "does" };
    const text = toJsonText(asked({ tools: [tool] }).body);
    expect(text).toContain(`"description":"does","parameters":${schema},"strict":true`);
  });

  test.each([
    ["none", choice(ToolChoiceMode.NONE), "none", 2, []],
    [
      "named",
      choice(ToolChoiceMode.NAMED, { name: "run" }),
      { type: "function", function: { name: "run" } },
      2,
      ["run"],
    ],
    ["required", choice(ToolChoiceMode.REQUIRED), "required", 2, ["run", "search"]],
    ["a subset", choice(ToolChoiceMode.AUTO, { allowedNames: ["run"] }), "auto", 1, ["run"]],
    [
      "one of a subset, and only it",
      choice(ToolChoiceMode.REQUIRED, { allowedNames: ["search"], disableParallelCalls: true }),
      { type: "function", function: { name: "search" } },
      2,
      ["search"],
    ],
  ])("a choice of %s", (_what, fields, sent, shown, callable) => {
    const { body, tools } = asked(fields);
    expect(body.tool_choice).toEqual(sent);
    expect(body.tools).toHaveLength(shown);
    expect([...tools.callable]).toEqual(callable);
  });

  test.each([
    ["names no tool", choice(ToolChoiceMode.NAMED, { name: "nope" })],
    ["allows no tool", choice(ToolChoiceMode.REQUIRED, { allowedNames: ["nope"] })],
  ])("a choice that %s is refused", (_what, fields) => {
    expect(() => asked(fields)).toThrow(expect.objectContaining({ reason: "INVALID_REQUEST" }));
  });

  test("a schema that is not an object is refused with its path only", () => {
    const tool = { ...toolOf("run", {}), parametersJsonSchema: '{"a":1},"model":"secret"' };
    expect(() => asked({ tools: [tool] })).toThrow("tools[0].parameters_json_schema: is not a JSON object.");
  });

  test("the schemas that the engine would compile are returned, to be checked before they are sent", () => {
    const tools = [toolOf("f", { properties: { a: { pattern: "[" } } })];
    expect(asked({ tools }).compiled).toEqual([]);
    expect(asked({ tools, ...choice(ToolChoiceMode.REQUIRED) }).compiled).toMatchObject([
      { at: "tools[0].parameters_json_schema", text: expect.stringContaining("pattern") },
    ]);
  });

  test("a required call excludes any other constraint", () => {
    const outputConstraint = { kind: { $case: "jsonObject", value: {} } } as const;
    expect(asked({ outputConstraint, ...choice(ToolChoiceMode.REQUIRED) }).body).not.toHaveProperty("response_format");
  });
});

describe("reasoning", () => {
  const sent = (dialect: DialectName, profile: string, fields: Partial<GenerateRequest>) => {
    const { body, thinking } = toChatRequest(generateRequest(fields), settingsOf(dialect, {}, profile), undefined);
    return {
      kwargs: body.chat_template_kwargs,
      effort: body.reasoning_effort,
      budget: body.thinking_token_budget,
      hidden: thinking.hidden,
    };
  };
  const off = { reasoning: { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED } };

  test.each<[string, DialectName, string, Partial<GenerateRequest>, object]>([
    [
      "GLM's low is not its deepest",
      "vllm",
      "glm-4.7",
      think(ReasoningEffort.LOW),
      { kwargs: { enable_thinking: true, reasoning_effort: "high" }, budget: 1_024 },
    ],
    [
      "GLM's high is its deepest",
      "vllm",
      "glm-4.7",
      think(ReasoningEffort.HIGH),
      { kwargs: { enable_thinking: true, reasoning_effort: "max" } },
    ],
    [
      "SGLang has a field for it",
      "sglang",
      "glm-4.7",
      think(ReasoningEffort.HIGH),
      { kwargs: { enable_thinking: true }, effort: "max" },
    ],
    [
      "Kimi-K3 has its own word for it",
      "vllm",
      "kimi-k3",
      think(ReasoningEffort.LOW),
      { kwargs: { thinking: true, thinking_effort: "low" } },
    ],
    [
      "the caller's budget takes precedence",
      "vllm",
      "qwen3",
      think(ReasoningEffort.LOW, 9),
      { kwargs: { enable_thinking: true }, budget: 9 },
    ],
    ["DeepSeek reasoning is disabled", "vllm", "deepseek-v4", off, { kwargs: { thinking: false } }],
    ["MiniMax-M2 reasoning cannot be disabled", "vllm", "minimax-m2", off, { hidden: true }],
    ["a request without a mode gets the default", "vllm", "deepseek-v4", {}, { kwargs: { thinking: false } }],
    ["reasoning may be the default", "vllm", "qwen3", {}, { kwargs: { enable_thinking: true } }],
    ["a model without reasoning gets no variables", "vllm", "hermes", think(ReasoningEffort.HIGH), {}],
  ])("%s", (_what, dialect, profile, fields, found) => {
    expect(sent(dialect, profile, fields)).toEqual({
      kwargs: undefined,
      effort: undefined,
      budget: undefined,
      hidden: false,
      ...found,
    });
  });

  test("a token count uses the same variables", () => {
    const { messages, tools } = generateRequest({ tools: TOOLS });
    const body = toCountBody({ model: "m", messages, tools, toolChoice: undefined, ...off }, settingsOf("vllm"));
    expect(Object.keys(body).sort()).toEqual(["chat_template_kwargs", "messages", "model", "tools"]);
    expect(body.chat_template_kwargs).toEqual({ enable_thinking: false });
  });
});

test("llama-server returns no log probabilities beside tools, and the request is refused", () => {
  const sampling = { ...SAMPLING, topLogprobs: 2 };
  expect(() => bodyOf(settingsOf("llama-server"), { sampling, tools: TOOLS })).toThrow(
    expect.objectContaining({ reason: "UNSUPPORTED_FEATURE" }),
  );
  expect(bodyOf(settingsOf("llama-server"), { sampling })).toMatchObject({ logprobs: true, top_logprobs: 2 });
});

test("stop strings that the engine would not report are matched in the node", () => {
  const request = generateRequest({ sampling: SAMPLING });
  expect(toChatRequest(request, settingsOf("llama-server"), undefined).nodeStops).toEqual(["END"]);
  expect(toChatRequest(request, settingsOf("vllm"), undefined).nodeStops).toEqual([]);
});

test("an answer that the caller has begun is continued", () => {
  const messages = [
    { role: Role.USER, parts: [say("hi")] },
    { role: Role.ASSISTANT, parts: [say("I")] },
  ];
  expect(bodyOf(settingsOf("vllm"), { messages })).toMatchObject({
    continue_final_message: true,
    add_generation_prompt: false,
  });
});

describe.each(Object.entries(PLACES))("a special token of the model in %s", (_place, withSpelling) => {
  const settings = settingsOf("vllm", { marks: new SpelledMarks(MARKS) });
  /** All text that the engine finds in a body, JSON in texts included. */
  const written = (fields: Partial<GenerateRequest>) => {
    const strings: string[] = [];
    const find = (value: unknown): void => {
      if (typeof value === "string") {
        strings.push(value);
        if (value.startsWith("{")) find(JSON.parse(value));
      } else if (typeof value === "object" && value !== null) {
        strings.push(...Object.keys(value));
        Object.values(value).forEach(find);
      }
    };
    find(bodyOf(settings, fields));
    return strings.join("\n");
  };

  test.each(MARKS)("%s is broken in the request and in the count", (mark) => {
    const fields = withSpelling(mark);
    const text = written(fields);
    for (const other of MARKS) expect(text).not.toContain(other);
    expect(text.replaceAll("\u2060", "")).toContain(mark);
    const { messages, tools } = bodyOf(settings, fields);
    const off = { toolChoice: undefined, reasoning: undefined };
    expect(JSON.parse(toJsonText(toCountBody({ model: "m", ...fields, ...off }, settings)))).toMatchObject({
      messages,
      ...(fields.tools.length > 0 && { tools }),
    });
  });
});

test("a tool name must not be a special token's spelling, as no answer could call it", () => {
  const settings = settingsOf("vllm", { marks: new SpelledMarks(["run"]) });
  expect(() => toChatRequest(generateRequest({ tools: TOOLS }), settings, undefined)).toThrow(
    "tools[0].name: spells a control token of the model.",
  );
});

test("llama-server accepts no tool name: it sees that tool alone, and must call one", () => {
  const named = choice(ToolChoiceMode.NAMED, { name: "search", disableParallelCalls: true });
  const { tools, tool_choice: toolChoice } = bodyOf(settingsOf("llama-server"), { tools: TOOLS, ...named });
  expect({ tools, toolChoice }).toMatchObject({ tools: [{ function: { name: "search" } }], toolChoice: "required" });
  const { tools: all } = bodyOf(settingsOf("vllm"), { tools: TOOLS, ...named });
  expect(all).toHaveLength(TOOLS.length);
});

test("the text of a begun answer is known for engines that repeat it", () => {
  const messages = [
    { role: Role.USER, parts: [say("Count.")] },
    { role: Role.ASSISTANT, parts: [say("1, <think>")] },
  ];
  const begun = (dialect: DialectName, request: Partial<GenerateRequest>) => {
    const settings = settingsOf(dialect, { marks: new SpelledMarks(["<think>"]) });
    return toChatRequest(generateRequest(request), settings, undefined).begun;
  };
  expect(begun("llama-server", { messages })).toBe("1, <\u2060think>");
  expect(begun("llama-server", { messages: messages.slice(0, 1) })).toBe("");
  expect(begun("vllm", { messages })).toBe("");
});
