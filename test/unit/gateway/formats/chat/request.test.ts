import { describe, expect, test } from "vitest";
import { MAX_LOGIT_BIAS } from "../../../../../gateway/formats/chat/schema.ts";
import { errorObjectA, statusOf } from "../../../../../gateway/formats/error-envelope.ts";
import { ReasoningEffort, ReasoningMode } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { faultOf, thrownBy } from "../thrown-by.ts";
import { minimal, prepareBody, prepareChat } from "./prepare-chat.ts";

const tool = (name: string, more: object = {}) => ({
  type: "function",
  function: { name, parameters: { type: "object" }, ...more },
});
const schema = { type: "object", properties: { a: { type: "string" } } };

describe("a chat request that is accepted", () => {
  test("becomes a canonical request without unset fields", () => {
    const prepared = prepareChat({});
    expect(prepared.model).toBe("svc-qwen");
    expect(prepared.stream).toBe(false);
    expect(prepared.request).toEqual({
      model: "svc-qwen",
      messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "hi" } } }] }],
      tools: [],
      sampling: { stop: [], logitBias: {} },
      cache: { affinityKey: "", isolationSalt: "" },
    });
  });

  const optional = [
    "stream stream_options max_tokens max_completion_tokens temperature top_p stop tools tool_choice response_format",
    "parallel_tool_calls reasoning reasoning_effort prompt_cache_key cache_ttl seed frequency_penalty presence_penalty",
    "logit_bias top_k min_p repetition_penalty logprobs top_logprobs n modalities audio functions function_call",
    "web_search_options service_tier thinking enable_thinking chat_template_kwargs include_reasoning thread container",
    "previous_response_id conversation user store metadata",
  ].flatMap((line) => line.split(" "));

  test.each(optional.map((field) => [field]))("%s: null is the same as absent", (field) => {
    expect(prepareChat({ [field]: null }).request).toEqual(prepareChat({}).request);
  });

  test.each([
    [{ foo: 1 }],
    [{ prediction: { type: "content", content: "x" }, verbosity: "low", metadata: { a: "b" } }],
    [{ store: false, user: "u", safety_identifier: "s", service_tier: "flex" }],
    [{ prompt_cache_retention: "24h", prompt_cache_options: {} }],
    [{ stream_options: { include_usage: true, include_obfuscation: false } }],
    [{ n: 1, modalities: ["text"] }],
    [{ top_logprobs: 3 }],
    [{ tools: [], tool_choice: "auto" }],
    [{ tools: null, tool_choice: "none" }],
    [{ response_format: { type: "text" } }],
    [{ thinking: "yes", enable_thinking: 1, chat_template_kwargs: "x", include_reasoning: {} }],
  ])("%j changes nothing", (fields) => {
    expect(prepareChat(fields).request).toEqual(prepareChat({}).request);
  });

  test.each([
    [{ max_completion_tokens: null, max_tokens: 99 }, 99],
    [{ max_tokens: 2 ** 40 }, 262_144],
  ])("%j limits the output to %s tokens", (fields, expected) => {
    expect(prepareChat(fields).request.maxOutputTokens).toBe(expected);
  });

  test("sampling is passed on field by field, bounds included", () => {
    const fields = {
      temperature: 2,
      top_p: 0,
      top_k: 40,
      min_p: 0.05,
      frequency_penalty: -2,
      presence_penalty: 2,
      repetition_penalty: 1.1,
      seed: 42,
      stop: ["a", "b"],
      logprobs: true,
      top_logprobs: 20,
      logit_bias: { "0": -100, "4294967295": 100 },
    };
    expect(prepareChat(fields).request.sampling).toEqual({
      temperature: 2,
      topP: 0,
      topK: 40,
      minP: 0.05,
      frequencyPenalty: -2,
      presencePenalty: 2,
      repetitionPenalty: 1.1,
      seed: 42,
      stop: ["a", "b"],
      topLogprobs: 20,
      logitBias: { 0: -100, 4294967295: 100 },
    });
    expect(prepareChat({ temperature: 0, top_p: 1 }).request.sampling).toMatchObject({ temperature: 0, topP: 1 });
  });

  test("logprobs alone requests the chosen tokens only, and -1 switches top_k off", () => {
    expect(prepareChat({ logprobs: true }).request.sampling?.topLogprobs).toBe(0);
    expect(prepareChat({ top_k: -1 }).request.sampling?.topK).toBe(0);
  });

  test.each([
    [0, 0],
    [-0, 0],
    [-1, 2 ** 53 - 1],
    [2 ** 53 - 1, 2 ** 53 - 1],
    [2 ** 53 + 2, 2],
    [-(2 ** 53), 0],
    [2 ** 63, 0],
  ])("the seed %d is folded to %d", (seed, expected) => {
    expect(prepareChat({ seed }).request.sampling?.seed).toBe(expected);
  });

  const enabled = (effort: ReasoningEffort) => ({ mode: ReasoningMode.ENABLED, effort });
  const on = enabled(ReasoningEffort.UNSPECIFIED);
  const off = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };

  test.each([
    [{ reasoning: { effort: "low" } }, enabled(ReasoningEffort.LOW)],
    [{ reasoning: { effort: "medium" } }, enabled(ReasoningEffort.MEDIUM)],
    [{ reasoning: { effort: "high" } }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning: { effort: "none" } }, off],
    [{ reasoning: { effort: "minimal" } }, enabled(ReasoningEffort.LOW)],
    [{ reasoning: { effort: "xhigh" } }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning: { effort: "max" } }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning: { effort: null }, reasoning_effort: "high" }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning: { effort: "low" }, reasoning_effort: "high" }, enabled(ReasoningEffort.LOW)],
    [{ reasoning: {} }, undefined],
    [{ reasoning_effort: "none" }, off],
    [{ reasoning_effort: "minimal" }, enabled(ReasoningEffort.LOW)],
    [{ reasoning_effort: "low" }, enabled(ReasoningEffort.LOW)],
    [{ reasoning_effort: "medium" }, enabled(ReasoningEffort.MEDIUM)],
    [{ reasoning_effort: "high" }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning_effort: "xhigh" }, enabled(ReasoningEffort.HIGH)],
    [{ reasoning_effort: "max" }, enabled(ReasoningEffort.HIGH)],
    [{ enable_thinking: true }, on],
    [{ enable_thinking: false }, off],
    [{ chat_template_kwargs: { enable_thinking: false } }, off],
    [{ chat_template_kwargs: { thinking: true } }, on],
    [{ include_reasoning: false }, off],
    [{ thinking: true }, on],
    [{ thinking: { type: "disabled" } }, off],
    [{ thinking: { type: "adaptive" } }, on],
    [{ thinking: { type: "enabled", budget_tokens: 100 } }, { ...on, budgetTokens: 100 }],
    [
      { thinking: { type: "enabled", budget_tokens: 100 }, max_tokens: 100 },
      { ...on, budgetTokens: 99 },
    ],
    [
      { thinking: { type: "enabled", budget_tokens: 100 }, max_tokens: 1 },
      { ...on, budgetTokens: 1 },
    ],
    [{ thinking: { type: "enabled", budget_tokens: -1 } }, on],
    [{ thinking: { type: "disabled" }, enable_thinking: true }, off],
    [{ reasoning_effort: "low", enable_thinking: false }, enabled(ReasoningEffort.LOW)],
  ])("%j asks for reasoning as %j", (fields, expected) => {
    expect(prepareChat(fields).request.reasoning).toEqual(expected);
  });

  test("cache hints carry the caller's own key and the retention", () => {
    expect(prepareChat({ prompt_cache_key: "session-1", cache_ttl: "30m" }).request.cache).toEqual({
      affinityKey: "session-1",
      isolationSalt: "",
      ttl: { seconds: 1800, nanos: 0 },
    });
    for (const key of ["k".repeat(512), "😀".repeat(512)])
      expect(prepareChat({ prompt_cache_key: key }).request.cache?.affinityKey).toBe(key);
  });

  test("tools keep the exact text of their schemas; a schema is optional", () => {
    const tools = [
      tool("read", { description: "Reads.", strict: true, parameters: { type: "object", required: [], a: 1 } }),
      { type: "function", function: { name: "get_goal" } },
      { ...tool("last"), cache_control: { type: "ephemeral", ttl: "1h" } },
    ];
    expect(prepareChat({ tools }).request.tools).toEqual([
      {
        name: "read",
        description: "Reads.",
        parametersJsonSchema: '{"type":"object","required":[],"a":1}',
        strict: true,
      },
      { name: "get_goal", description: "", parametersJsonSchema: '{"type":"object","properties":{}}', strict: false },
      {
        name: "last",
        description: "",
        parametersJsonSchema: '{"type":"object"}',
        strict: false,
        cacheBreakpoint: { ttl: { seconds: 3600, nanos: 0 } },
      },
    ]);
  });

  const choice = { mode: ToolChoiceMode.AUTO, name: "", disableParallelCalls: false, allowedNames: [] };
  const allowed = (mode: string) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: [{ type: "function", function: { name: "b" } }] },
  });

  test.each([
    [undefined, choice],
    [null, choice],
    ["auto", choice],
    ["none", { ...choice, mode: ToolChoiceMode.NONE }],
    ["required", { ...choice, mode: ToolChoiceMode.REQUIRED }],
    [
      { type: "function", function: { name: "b" } },
      { ...choice, mode: ToolChoiceMode.NAMED, name: "b" },
    ],
    [allowed("auto"), { ...choice, allowedNames: ["b"] }],
    [allowed("required"), { ...choice, mode: ToolChoiceMode.REQUIRED, allowedNames: ["b"] }],
  ])("tool_choice %j with tools means %j", (tool_choice, expected) => {
    expect(prepareChat({ tools: [tool("a"), tool("b")], tool_choice }).request.toolChoice).toEqual(expected);
  });

  test.each([
    [
      { type: "json_schema", json_schema: { name: "n", schema, strict: null } },
      { kind: { $case: "jsonSchema", value: { name: "n", schemaJson: JSON.stringify(schema), strict: false } } },
    ],
  ])("response_format %j constrains the output", (response_format, expected) => {
    expect(prepareChat({ response_format }).request.outputConstraint).toEqual(expected);
  });
});

describe("a chat request that is refused", () => {
  const allowedTools = (allowed_tools: unknown) => ({
    tools: [tool("a")],
    tool_choice: { type: "allowed_tools", allowed_tools },
  });
  const format = (json_schema: unknown) => ({ response_format: { type: "json_schema", json_schema } });
  const ofTool = (value: unknown) => ({ tools: [tool("a"), value] });

  test.each<[object, string, string]>([
    [{ max_tokens: -0 }, "integer_below_min_value", "max_tokens"],
    [{ max_tokens: 1e21 }, "integer_above_max_value", "max_tokens"],
    [{ max_tokens: Number.POSITIVE_INFINITY }, "invalid_type", "max_tokens"],
    [{ max_completion_tokens: 0, max_tokens: 5 }, "integer_below_min_value", "max_completion_tokens"],
    [{ top_p: -0.1 }, "decimal_below_min_value", "top_p"],
    [{ frequency_penalty: 2.5 }, "decimal_above_max_value", "frequency_penalty"],
    [{ presence_penalty: -2.5 }, "decimal_below_min_value", "presence_penalty"],
    [{ repetition_penalty: 0 }, "integer_below_min_value", "repetition_penalty"],
    [{ top_k: -2 }, "integer_below_min_value", "top_k"],
    [{ min_p: 1.5 }, "decimal_above_max_value", "min_p"],
    [{ top_logprobs: 21 }, "integer_above_max_value", "top_logprobs"],
    [{ stop: new Array(17).fill("x") }, "array_above_max_length", "stop"],
    [{ logit_bias: [] }, "invalid_type", "logit_bias"],
    [{ logit_bias: { "-1": 1 } }, "invalid_value", "logit_bias"],
    [{ logit_bias: { "4294967296": 1 } }, "invalid_value", "logit_bias"],
    [{ logit_bias: { hello: 1 } }, "invalid_value", "logit_bias"],
    [{ logit_bias: { "1": 101 } }, "invalid_value", "logit_bias"],
    [{ logit_bias: { "1": "1" } }, "invalid_value", "logit_bias"],
    [
      { logit_bias: Object.fromEntries(Array.from({ length: MAX_LOGIT_BIAS + 1 }, (_, i) => [i, 1])) },
      "array_above_max_length",
      "logit_bias",
    ],
    [{ n: 0 }, "integer_below_min_value", "n"],
    [{ modalities: ["text", "audio"] }, "unsupported_value", "modalities"],
    [{ reasoning_effort: "constructor" }, "invalid_value", "reasoning_effort"],
    [{ prompt_cache_key: "😀".repeat(513) }, "string_above_max_length", "prompt_cache_key"],
    [{ tools: new Array(513).fill(tool("a")) }, "array_above_max_length", "tools"],
    [ofTool({ function: { name: "x" } }), "missing_required_parameter", "tools[1].type"],
    [ofTool({ type: "function", function: {} }), "missing_required_parameter", "tools[1].function.name"],
    [ofTool(tool("a b")), "invalid_value", "tools[1].function.name"],
    [
      ofTool(tool("b", { parameters: { $ref: "http://x" } })),
      "invalid_function_parameters",
      "tools[1].function.parameters",
    ],
    [{ tools: [], tool_choice: { type: "function", function: { name: "a" } } }, "invalid_value", "tool_choice"],
    [{ tools: [tool("a")], tool_choice: "any" }, "invalid_value", "tool_choice"],
    [{ tools: [tool("a")], tool_choice: {} }, "missing_required_parameter", "tool_choice.type"],
    [{ tools: [tool("a")], tool_choice: { type: "custom" } }, "unsupported_value", "tool_choice.type"],
    [{ tools: [tool("a")], tool_choice: { type: "tool" } }, "invalid_value", "tool_choice.type"],
    [allowedTools({ mode: "none", tools: [] }), "invalid_value", "tool_choice.allowed_tools.mode"],
    [allowedTools({ mode: "auto", tools: [] }), "empty_array", "tool_choice.allowed_tools.tools"],
    [
      allowedTools({ mode: "auto", tools: [{ type: "custom" }] }),
      "unsupported_value",
      "tool_choice.allowed_tools.tools[0].type",
    ],
    [allowedTools({ mode: "auto", tools: [tool("z")] }), "invalid_value", "tool_choice"],
    [{ response_format: {} }, "missing_required_parameter", "response_format.type"],
    [format(undefined), "missing_required_parameter", "response_format.json_schema"],
    [format({ schema }), "missing_required_parameter", "response_format.json_schema.name"],
    [format({ name: "a b", schema }), "invalid_value", "response_format.json_schema.name"],
    [format({ name: "n" }), "missing_required_parameter", "response_format.json_schema.schema"],
    [format({ name: "n", schema: { $ref: "x" } }), "invalid_json_schema", "response_format.json_schema.schema"],
  ])("%j", (fields, code, param) => {
    const run = () => prepareChat(fields);
    expect(faultOf(run)).toEqual({ code, param });
    expect(statusOf(thrownBy(run), "a")).toBe(400);
  });

  test("reports the most useful fault first", () => {
    const faults = { temperature: 9, tools: 1, messages: [] };
    expect(faultOf(() => prepareBody(faults)).param).toBe("model");
    expect(faultOf(() => prepareBody({ ...faults, model: "svc-qwen" })).param).toBe("messages");
    expect(faultOf(() => prepareBody({ ...minimal, ...faults, messages: [{}] })).param).toBe("temperature");
    expect(faultOf(() => prepareBody({ ...minimal, tools: 1, messages: [{}] })).param).toBe("tools");
    expect(faultOf(() => prepareBody({ ...minimal, messages: [{}] })).param).toBe("messages[0].role");
  });

  test("repeats none of the caller's text", () => {
    const word = "hidden-word";
    const bodies = [
      // A name that resembles a model's is repeated, as it may be a typing error.
      { model: `${word} of mine` },
      { cache_ttl: word },
      { reasoning: { effort: word } },
      { reasoning_effort: word },
      { tool_choice: word },
      { tools: [tool("a")], tool_choice: { type: "function", function: { name: word } } },
      { logit_bias: { [word]: 1 } },
      { response_format: { type: word } },
      { messages: [{ role: word }] },
      { messages: [{ role: "user", content: [{ type: word }] }] },
      { messages: [{ role: "tool", tool_call_id: word, content: "" }] },
      { tools: [{ type: word }] },
    ];
    for (const body of bodies)
      expect(JSON.stringify(errorObjectA(thrownBy(() => prepareChat(body))))).not.toContain(word);
  });
});
