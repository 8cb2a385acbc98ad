import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CHAT_UNTAKEN } from "../../../../gateway/formats/chat/schema.ts";
import type { Format } from "../../../../gateway/formats/format.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { MESSAGES_UNTAKEN } from "../../../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../../../gateway/formats/request-body.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { ReasoningEffort, ReasoningMode } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { contextOf, prepare, refusal, requestOf } from "./fixture.ts";

/* The fields of a body beside its conversation become those of the canonical request. */

const schema = { type: "object", properties: { z: {}, a: { type: "string" } } };
const TTL = { type: "ephemeral", ttl: "5m" };

test.each([
  [chat, {}],
  [messages, { maxOutputTokens: 16 }],
  [responses, {}],
])("the smallest body of $name leaves everything to the model", (format, more) => {
  const { stream, request } = prepare(format);
  expect(stream).toBe(false);
  expect(request).toEqual({
    model: "svc-qwen",
    messages: [expect.anything()],
    tools: [],
    sampling: { stop: [], logitBias: {} },
    cache: { affinityKey: "", isolationSalt: "" },
    ...more,
  });
});

describe.each<[Format, string]>([
  [
    chat,
    `stream stream_options max_tokens max_completion_tokens temperature top_p stop tools tool_choice response_format
    parallel_tool_calls reasoning reasoning_effort prompt_cache_key cache_ttl seed frequency_penalty presence_penalty
    logit_bias top_k min_p repetition_penalty logprobs top_logprobs n modalities thinking enable_thinking
    prompt_cache_options prompt_cache_retention chat_template_kwargs include_reasoning think thinking_token_budget service_tier`,
  ],
  [
    messages,
    `system stream temperature top_p top_k stop_sequences tools tool_choice thinking output_config output_format metadata
    cache_control`,
  ],
  [
    responses,
    `stream store background previous_response_id conversation prompt moderation context_management truncation
    service_tier stream_options max_tool_calls frequency_penalty presence_penalty include tools tool_choice text reasoning
    metadata client_metadata prompt_cache_retention prompt_cache_options safety_identifier user`,
  ],
])("$name", (format, names) => {
  test.each(names.split(/\s+/))("null in %s means that it is absent", (name) => {
    expect(requestOf(format, { [name]: null })).toEqual(requestOf(format));
  });
});

test.each<[Format, object]>([
  [chat, { foo: 1, stream_options: { include_usage: true, include_obfuscation: false } }],
  [chat, { n: 1, modalities: ["text"], top_logprobs: 3, response_format: { type: "text" }, service_tier: "flex" }],
  [chat, { tools: null, tool_choice: "none" }],
  [chat, { prompt_cache_options: { mode: "explicit", prewarm: false, ttl: null }, prompt_cache_retention: 7 }],
  [chat, { thinking: "yes", enable_thinking: 1, chat_template_kwargs: "x", include_reasoning: {} }],
  [chat, { reasoning: { enabled: 1, max_tokens: 0, exclude: true }, think: "much", thinking_token_budget: "x" }],
  [messages, { metadata: "u1" }],
  [messages, { metadata: { user_id: 7 } }],
  [responses, { stream: false, store: false, background: false, context_management: [], truncation: "disabled" }],
  [responses, { service_tier: "priority", stream_options: { include_obfuscation: true }, max_tool_calls: 3 }],
  [
    responses,
    { reasoning: { effort: null, summary: null, context: "auto", mode: "standard" }, include: [], tools: [] },
  ],
  [responses, { text: {}, metadata: {}, client_metadata: { a: "x".repeat(16_383) }, prompt_cache_options: {} }],
  [responses, { stream_options: { reasoning_summary_delivery: "sequential_cutoff" }, reasoning: { unknown: null } }],
  [responses, { prompt_cache_retention: "in_memory", safety_identifier: "s", user: "u", tool_choice: "auto" }],
])("$name: %j changes nothing", (format, fields) => {
  expect(requestOf(format, fields)).toEqual(requestOf(format));
});

describe.each([
  ["chat", CHAT_UNTAKEN, (body: object) => requestOf(chat, body), (body: object) => refusal(chat, body)],
  [
    "messages",
    MESSAGES_UNTAKEN,
    (body: object) => requestOf(messages, body),
    (body: object) => refusal(messages, body),
  ],
  [
    "count_tokens",
    MESSAGES_UNTAKEN,
    (body: object) => countTokens.prepare({ ...prepareCount, ...body }, contextOf()).request,
    (body: object) => refusal(countTokens, body),
  ],
] as const)("the fields of %s that do not reach the request", (_, fields, request, refuse) => {
  test.each(fields.filter(({ becomes }) => becomes === "refused"))("$field is refused by name", (row) => {
    const { field, neutral = [] } = row;
    for (const value of ["other", 7, [1]])
      expect(refuse({ [field]: value })).toMatch(
        new RegExp(`^unsupported_parameter ${field}$|^${field}: This field is`),
      );
    for (const value of [null, ...neutral]) expect(request({ [field]: value })).toEqual(request({}));
  });

  const isTop = ({ becomes, field }: UntakenField) => becomes === "ignored" && !/[.[]/.test(field);
  test.each(fields.filter(isTop))("$field changes nothing", ({ field }) => {
    for (const value of ["other", 7, [1], { a: 1 }, true]) expect(request({ [field]: value })).toEqual(request({}));
  });
});

const prepareCount = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

test("a count needs no max_tokens, and accepts any", () => {
  const { model, request } = countTokens.prepare(prepareCount, contextOf());
  expect([model, request.messages.length]).toEqual(["svc-qwen", 1]);
  for (const max_tokens of [null, 0, "x", 5])
    expect(countTokens.prepare({ ...prepareCount, max_tokens }, contextOf()).request).toEqual(request);
});

test.each<[Format, object, number]>([
  [chat, { max_completion_tokens: null, max_tokens: 99 }, 99],
  [chat, { max_tokens: 2 ** 40 }, 262_144],
  [messages, { max_tokens: 1 }, 1],
  [messages, { max_tokens: 300_000 }, 262_144],
  [messages, { max_tokens: 300_000, model: "svc-glm53" }, 300_000],
  [responses, { max_output_tokens: 100 }, 100],
  [responses, { max_output_tokens: 2 ** 40 }, 262_144],
  [chat, { max_tokens: 7, prompt_cache_options: { prewarm: true } }, 0],
  [responses, { max_output_tokens: 7, prompt_cache_options: { prewarm: true } }, 0],
])("$name: %j limits the answer to %i tokens", (format, fields, expected) => {
  expect(requestOf(format, fields).maxOutputTokens).toBe(expected);
});

test.each<[Format, object, object]>([
  [
    chat,
    {
      temperature: 2,
      top_p: 0,
      top_k: 40,
      min_p: 0.05,
      frequency_penalty: -2,
      presence_penalty: 2,
      seed: 42,
      stop: ["a", "b"],
    },
    {
      temperature: 2,
      topP: 0,
      topK: 40,
      minP: 0.05,
      frequencyPenalty: -2,
      presencePenalty: 2,
      seed: 42,
      stop: ["a", "b"],
    },
  ],
  [chat, { temperature: 0, top_p: 1, repetition_penalty: 10 }, { temperature: 0, topP: 1, repetitionPenalty: 10 }],
  [chat, { top_k: -1, repetition_penalty: 0.01 }, { topK: 0, repetitionPenalty: 0.01 }],
  [chat, { top_k: 2 ** 31 - 1, min_p: 1 }, { topK: 2 ** 31 - 1, minP: 1 }],
  [chat, { logit_bias: { "0": -100, "4294967295": 100 } }, { logitBias: { 0: -100, 4294967295: 100 } }],
  [chat, { logprobs: true }, { topLogprobs: 0 }],
  [chat, { logprobs: true, top_logprobs: 20 }, { topLogprobs: 20 }],
  // Seeds are folded into the integers that are exact.
  [chat, { seed: -0 }, { seed: 0 }],
  [chat, { seed: -1 }, { seed: 2 ** 53 - 1 }],
  [chat, { seed: 2 ** 53 - 1 }, { seed: 2 ** 53 - 1 }],
  [chat, { seed: 2 ** 53 + 2 }, { seed: 2 }],
  [chat, { seed: -(2 ** 53) }, { seed: 0 }],
  [chat, { seed: 2 ** 63 }, { seed: 0 }],
  [
    messages,
    { temperature: 1, top_p: 0, top_k: 0, stop_sequences: ["\n\n", ""] },
    { temperature: 1, topP: 0, topK: 0, stop: ["\n\n"] },
  ],
  [messages, { temperature: 0, top_p: 1, top_k: 2 ** 32 - 1 }, { temperature: 0, topP: 1, topK: 2 ** 32 - 1 }],
  [responses, { temperature: 0, top_p: 0.5 }, { temperature: 0, topP: 0.5 }],
  [responses, { frequency_penalty: 0.5, presence_penalty: -2 }, { frequencyPenalty: 0.5, presencePenalty: -2 }],
  [responses, { top_logprobs: 0 }, { topLogprobs: undefined }],
  [responses, { top_logprobs: 20 }, { topLogprobs: 20 }],
  [responses, { include: ["message.output_text.logprobs"] }, { topLogprobs: 0 }],
])("$name: %j samples as %j", (format, fields, expected) => {
  expect(requestOf(format, fields).sampling).toEqual({ stop: [], logitBias: {}, ...expected });
});

const on = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED };
const off = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
const level = (effort: ReasoningEffort) => ({ mode: ReasoningMode.ENABLED, effort });
const [low, high] = [level(ReasoningEffort.LOW), level(ReasoningEffort.HIGH)];
const enabled = (budget_tokens: number) => ({ thinking: { type: "enabled", budget_tokens } });

const EFFORTS = {
  ...{ none: ReasoningEffort.UNSPECIFIED, minimal: ReasoningEffort.LOW, low: ReasoningEffort.LOW },
  ...{
    medium: ReasoningEffort.MEDIUM,
    high: ReasoningEffort.HIGH,
    xhigh: ReasoningEffort.HIGH,
    max: ReasoningEffort.HIGH,
    ultra: ReasoningEffort.HIGH,
  },
};

test.each(Object.entries(EFFORTS))("the effort %s has the same level in every format", (word, effort) => {
  const mode = word === "none" ? ReasoningMode.DISABLED : ReasoningMode.ENABLED;
  for (const fields of [{ reasoning: { effort: word } }, { reasoning_effort: word }])
    expect(requestOf(chat, fields).reasoning).toEqual({ mode, effort });
  expect(requestOf(responses, { reasoning: { effort: word } }).reasoning).toEqual({ mode, effort });
  const modeB = word === "none" ? ReasoningMode.DISABLED : ReasoningMode.UNSPECIFIED;
  expect(requestOf(messages, { output_config: { effort: word } }).reasoning).toEqual({ mode: modeB, effort });
});

test.each<[Format, object, object | undefined]>([
  [chat, { reasoning: { effort: null }, reasoning_effort: "high" }, high],
  [chat, { reasoning: { effort: "low" }, reasoning_effort: "high" }, low],
  [chat, { reasoning: {} }, undefined],
  [chat, { enable_thinking: true }, on],
  [chat, { enable_thinking: false }, off],
  [chat, { chat_template_kwargs: { enable_thinking: false } }, off],
  [chat, { chat_template_kwargs: { thinking: true } }, on],
  [chat, { include_reasoning: false }, off],
  [chat, { thinking: true }, on],
  [chat, { thinking: { type: "disabled" } }, off],
  [chat, { thinking: { type: "adaptive" } }, on],
  [chat, enabled(100), { ...on, budgetTokens: 100 }],
  [chat, { ...enabled(100), max_tokens: 100 }, { ...on, budgetTokens: 99 }],
  [chat, { ...enabled(100), max_tokens: 1 }, { ...on, budgetTokens: 1 }],
  [chat, enabled(-1), on],
  [chat, { thinking: { type: "disabled" }, enable_thinking: true }, off],
  [chat, { reasoning_effort: "low", enable_thinking: false }, low],
  [chat, { reasoning: { enabled: true } }, on],
  [chat, { reasoning: { enabled: false, effort: "high" }, reasoning_effort: "high" }, off],
  [chat, { reasoning: { max_tokens: 500 } }, { ...on, budgetTokens: 500 }],
  [chat, { reasoning: { max_tokens: 500 }, max_tokens: 100 }, { ...on, budgetTokens: 99 }],
  [chat, { reasoning: { effort: "low", max_tokens: 500 } }, { ...low, budgetTokens: 500 }],
  [chat, { think: true }, on],
  [chat, { think: false }, off],
  [chat, { think: "high" }, high],
  [chat, { think: "high", reasoning_effort: "low" }, low],
  [chat, { thinking_token_budget: 7 }, { ...on, mode: ReasoningMode.UNSPECIFIED, budgetTokens: 7 }],
  [chat, { thinking_token_budget: 7, think: true }, { ...on, budgetTokens: 7 }],
  [messages, { thinking: { type: "disabled" } }, off],
  [messages, { thinking: { type: "between_tools" } }, on],
  [messages, enabled(1), { ...on, budgetTokens: 1 }],
  [messages, enabled(16), { ...on, budgetTokens: 15 }],
  [messages, { output_config: { effort: "max" }, thinking: { type: "adaptive" } }, high],
])("$name: %j asks for reasoning as %j", (format, fields, expected) => {
  expect(requestOf(format, fields).reasoning).toEqual(expected);
});

const NO_KEY = { affinityKey: "" };
const lasting = (seconds: number) => ({ seconds, nanos: 0 });

test.each<[Format, object, object]>([
  [
    chat,
    { prompt_cache_key: "😀".repeat(512), cache_ttl: "30m" },
    { affinityKey: "😀".repeat(512), ttl: { seconds: 1_800, nanos: 0 } },
  ],
  [chat, { prompt_cache_options: { ttl: "12h" }, prompt_cache_retention: "24h" }, { ...NO_KEY, ttl: lasting(43_200) }],
  [chat, { prompt_cache_options: { ttl: "12h" }, cache_ttl: "5m" }, { ...NO_KEY, ttl: lasting(300) }],
  [chat, { prompt_cache_retention: "24h" }, { ...NO_KEY, ttl: lasting(86_400) }],
  [responses, { prompt_cache_options: { ttl: "30m" } }, { ...NO_KEY, ttl: lasting(1_800) }],
  [responses, { prompt_cache_retention: "24h" }, { ...NO_KEY, ttl: lasting(86_400) }],
  [messages, { metadata: { user_id: "u1" } }, { affinityKey: "u1" }],
  [responses, { prompt_cache_key: "😀".repeat(512) }, { affinityKey: "😀".repeat(512) }],
])("$name: the caller's own key and time are hints (%#)", (format, fields, expected) => {
  expect(requestOf(format, fields).cache).toEqual({ isolationSalt: "", ...expected });
});

const NO_PARAMETERS = '{"type":"object","properties":{}}';
const chatTool = (name: string, more: object = {}) => ({ type: "function", function: { name, ...more } });
const read = { name: "read", description: "Reads.", strict: true };
const strictRead = { ...read, deferred: false, parametersJsonSchema: JSON.stringify(schema) };
const named = (name: string, more: object = {}) => ({
  name,
  description: "",
  strict: false,
  deferred: false,
  parametersJsonSchema: NO_PARAMETERS,
  ...more,
});
const withSchema = { parametersJsonSchema: JSON.stringify(schema) };
const cacheBreakpoint = { ttl: { seconds: 300, nanos: 0 } };

test.each<[Format, object[], object[]]>([
  [chat, [chatTool("read", { ...read, parameters: schema }), chatTool("now")], [strictRead, named("now")]],
  [chat, [{ ...chatTool("read"), cache_control: TTL }], [named("read", { cacheBreakpoint })]],
  [
    messages,
    [{ type: "custom", ...read, input_schema: schema, cache_control: TTL, eager_input_streaming: true }],
    [{ ...strictRead, cacheBreakpoint }],
  ],
  [
    messages,
    [{ name: "DeferredToolPlaceholder", input_schema: schema }],
    [named("DeferredToolPlaceholder", withSchema)],
  ],
  [
    responses,
    [
      { type: "function", ...read, parameters: schema },
      { type: "function", name: "now", parameters: null, strict: null },
    ],
    [strictRead, named("now")],
  ],
  [chat, [chatTool("twice"), chatTool("now"), chatTool("twice")], [named("twice"), named("now")]],
  [responses, [1, 2].map(() => ({ type: "function", name: "twice" })), [named("twice")]],
  [
    responses,
    [
      {
        type: "namespace",
        name: "fs",
        tools: [
          { type: "function", name: "a" },
          { type: "function", name: "b" },
        ],
      },
    ],
    [named("fs__a"), named("fs__b")],
  ],
])("$name: the tools %j", (format, tools, expected) => {
  expect(requestOf(format, { tools }).tools).toEqual(expected);
});

test("a deferred tool that nothing has loaded is none, and the paths of the others are theirs", () => {
  const tools = [true, false].map((defer_loading) => ({ name: `t${defer_loading}`, input_schema: {}, defer_loading }));
  const { request, toolPaths } = prepare(messages, { tools });
  expect([request.tools.map(({ name }) => name), toolPaths]).toEqual([["tfalse"], [["tools", 1]]]);
});

test("a tool that only code of the vendor may call is not offered", () => {
  const callers = [["code_execution_20260120"], ["code_execution_20260120", "direct"], null, undefined];
  const tools = callers.map((allowed_callers, at) => ({ name: `t${at}`, input_schema: {}, allowed_callers }));
  expect(requestOf(messages, { tools }).tools.map(({ name }) => name)).toEqual(["t1", "t2", "t3"]);
  expect(refusal(messages, { tools, tool_choice: { type: "tool", name: "t0" } })).toMatch(/^tool_choice.name: no tool/);
  const inGroup = ["programmatic", "direct"].flatMap((caller) =>
    ["function", "custom"].map((type) => ({ type, name: `${caller}_${type}`, allowed_callers: [caller] })),
  );
  const group = [{ type: "namespace", name: "g", tools: inGroup }];
  expect(requestOf(responses, { tools: group }).tools.map(({ name }) => name)).toEqual([
    ...["g__direct_function", "g__direct_custom"],
  ]);
});

test("unsupported tools are left out if so configured", () => {
  const group = {
    type: "namespace",
    name: "g",
    tools: [{ type: "image_generation" }, { type: "function", name: "h" }],
  };
  const tools = [{ type: "web_search" }, { type: "function", name: "f" }, group];
  const names = (list: object[]) => requestOf(responses, { tools: list }, { unsupportedTools: "skip" }).tools;
  expect(names(tools).map(({ name }) => name)).toEqual(["f", "g__h"]);
  expect(names([{ type: "web_search" }])).toEqual([]);
});

const closed = (properties: object, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

describe("a tool of responses that does not say whether it is strict", () => {
  test.each<[unknown, boolean]>([
    [closed({}), true],
    [closed({ a: { type: "string", description: "d" }, b: { enum: [1, 2] } }), true],
    [closed({ a: { type: "array", items: closed({ b: { type: ["string", "null"] } }) } }), true],
    [closed({ a: { anyOf: [{ type: "null" }, closed({ b: { const: 1 } })] } }), true],
    [{ ...closed({}), description: "x".repeat(64 * 1024) }, false],
    [undefined, false],
    [{ type: "object", properties: {} }, false],
    [{ ...closed({}), additionalProperties: true }, false],
    [{ ...closed({}), type: "string" }, false],
    [closed({ a: { type: "string" } }, []), false],
    [closed({ a: { type: "string", pattern: "x" } }), false],
    [closed({ a: { type: "object" } }), false],
    [closed({ a: { type: ["object", "null"] } }), false],
    [closed({ a: { items: { type: "object", properties: {} } } }), false],
    [closed({ a: { anyOf: [{ properties: {} }] } }), false],
    [closed({ a: { anyOf: {} } }), false],
    [closed({ a: true }), false],
  ])(
    "a tool of responses that does not say whether it is strict with the schema %j is strict: %s",
    (parameters, expected) => {
      const tools = [{ type: "function", name: "f", parameters }];
      expect(requestOf(responses, { tools }).tools[0]?.strict).toBe(expected);
    },
  );
});

const { AUTO, NONE, REQUIRED, NAMED } = ToolChoiceMode;
const chatTools = { tools: [chatTool("a"), chatTool("b")] };
const group = { type: "namespace", name: "fs", tools: [{ type: "function", name: "write" }] };
const messagesTools = { tools: [{ name: "read", input_schema: {} }] };
const responseTools = { tools: [{ type: "function", name: "read" }, group] };
const allowed = (mode: string) => ({ type: "allowed_tools", allowed_tools: { mode, tools: [chatTool("b")] } });
const custom = { type: "custom", name: "exec" };
const ofGroup = { type: "function", namespace: "fs", name: "write" };

test.each<[Format, object, object]>([
  [chat, chatTools, { mode: AUTO }],
  [chat, { ...chatTools, tool_choice: "none" }, { mode: NONE }],
  [chat, { ...chatTools, tool_choice: "required", parallel_tool_calls: true }, { mode: REQUIRED }],
  [chat, { ...chatTools, tool_choice: chatTool("b") }, { mode: NAMED, name: "b" }],
  [chat, { ...chatTools, tool_choice: allowed("auto") }, { mode: AUTO, allowedNames: ["b"] }],
  [chat, { ...chatTools, tool_choice: allowed("required") }, { mode: REQUIRED, allowedNames: ["b"] }],
  [chat, { ...chatTools, parallel_tool_calls: false }, { mode: AUTO, disableParallelCalls: true }],
  [messages, { ...messagesTools, tool_choice: { type: "auto" } }, { mode: AUTO }],
  [messages, { ...messagesTools, tool_choice: { type: "none" } }, { mode: NONE }],
  [
    messages,
    { ...messagesTools, tool_choice: { type: "any", disable_parallel_tool_use: true } },
    { mode: REQUIRED, disableParallelCalls: true },
  ],
  [messages, { ...messagesTools, tool_choice: { type: "tool", name: "read" } }, { mode: NAMED, name: "read" }],
  [responses, responseTools, { mode: AUTO }],
  [responses, { ...responseTools, tool_choice: "none" }, { mode: NONE }],
  [responses, { ...responseTools, tool_choice: "required" }, { mode: REQUIRED }],
  [responses, { ...responseTools, tool_choice: { type: "function", name: "read" } }, { mode: NAMED, name: "read" }],
  [responses, { ...responseTools, tool_choice: ofGroup }, { mode: NAMED, name: "fs__write" }],
  [responses, { tools: [custom], tool_choice: custom }, { mode: NAMED, name: "exec" }],
  [
    responses,
    { tools: [custom, group], tool_choice: { type: "allowed_tools", mode: "auto", tools: [ofGroup, custom] } },
    { mode: AUTO, allowedNames: ["fs__write", "exec"] },
  ],
  [
    responses,
    { ...responseTools, tool_choice: { type: "allowed_tools", mode: "required", tools: [ofGroup] } },
    { mode: REQUIRED, allowedNames: ["fs__write"] },
  ],
  [responses, { ...responseTools, parallel_tool_calls: false }, { mode: AUTO, disableParallelCalls: true }],
])("$name: the choice of tools %#", (format, fields, expected) => {
  const choice = { name: "", disableParallelCalls: false, allowedNames: [], ...expected };
  expect(requestOf(format, fields).toolChoice).toEqual(choice);
});

test.each<[Format, object]>([
  [messages, { tool_choice: { type: "auto" } }],
  [messages, { tool_choice: { type: "none" } }],
  [responses, { tools: [], tool_choice: "auto" }],
  [responses, { tool_choice: "none" }],
])("$name: without tools %j is no choice", (format, fields) => {
  expect(requestOf(format, fields).toolChoice).toBeUndefined();
});

const jsonSchema = { type: "json_schema", schema };

test.each<[Format, object, object]>([
  [
    chat,
    { response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: null } } },
    { name: "n", strict: false },
  ],
  [messages, { output_config: { format: jsonSchema } }, { name: "output", strict: true }],
  [messages, { output_format: jsonSchema }, { name: "output", strict: true }],
  [responses, { text: { format: { ...jsonSchema, name: "n" } } }, { name: "n", strict: false }],
  [
    responses,
    { text: { format: { ...jsonSchema, name: "n", strict: null, description: null } } },
    { name: "n", strict: false },
  ],
  [responses, { text: { format: { ...jsonSchema, name: "n", strict: true } } }, { name: "n", strict: true }],
])("$name: a schema binds the answer (%#)", (format, fields, expected) => {
  const value = { schemaJson: JSON.stringify(schema), ...expected };
  expect(requestOf(format, fields).outputConstraint).toEqual({ kind: { $case: "jsonSchema", value } });
});

test.each([
  { "x-whatever": 1, $schema: "https://json-schema.org/draft/2020-12/schema" },
  { properties: { $ref: { type: "string" } } },
  { $ref: "#" },
  { const: { $ref: "http://example.com" } },
  { default: [{ $ref: "x" }] },
  { enum: [{ $ref: "x" }] },
])("the schema %j is passed on as it is", (parameters) => {
  const [tool] = requestOf(chat, { tools: [chatTool("f", { parameters })] }).tools;
  expect(tool?.parametersJsonSchema).toBe(JSON.stringify(parameters));
});

test.each(["mcp__files__read", "a.b:c-d_E9", "x".repeat(128)])("%s is the name of a tool", (name) => {
  expect(requestOf(chat, { tools: [chatTool(name)] }).tools[0]?.name).toBe(name);
});
