import { describe, expect, test } from "vitest";
import { checkMessagesBody } from "../../../../../gateway/formats/messages/request.ts";
import {
  GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { context, errorOf, minimal } from "./fixture.ts";

const request = (more: object = {}) => checkMessagesBody({ ...minimal, ...more }, context).request;
const fault = (body: unknown) => errorOf(() => checkMessagesBody(body, context));

describe("a body", () => {
  test("that is minimal only requests an answer", () => {
    expect(request()).toEqual({
      model: "svc-qwen",
      messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "hi" } } }] }],
      tools: [],
      toolChoice: undefined,
      outputConstraint: undefined,
      sampling: { temperature: undefined, topP: undefined, topK: undefined, stop: [], logitBias: {} },
      reasoning: undefined,
      cache: { affinityKey: "", isolationSalt: "", ttl: undefined },
      maxOutputTokens: 16,
    });
  });

  test("null is absent, in every optional field", () => {
    const optional = [
      "system stream temperature top_p top_k stop_sequences tools tool_choice thinking output_config output_format",
      "metadata cache_control thread container previous_message_id conversation mcp_servers context_management",
    ].flatMap((names) => names.split(" "));
    expect(request(Object.fromEntries(optional.map((name) => [name, null])))).toEqual(request());
  });

  test("fields that only tune another service are ignored", () => {
    const more = {
      service_tier: "auto",
      speed: "standard",
      betas: ["x"],
      context_management: { edits: [] },
      foo: 1,
      mcp_servers: [],
    };
    expect(request(more)).toEqual(request());
  });

  test("sampling is passed to the engine unchanged", () => {
    const more = { temperature: 1, top_p: 0, top_k: 0, stop_sequences: ["\n\n", ""] };
    expect(request(more).sampling).toEqual({ temperature: 1, topP: 0, topK: 0, stop: ["\n\n"], logitBias: {} });
  });

  test("survives the wire whatever its numbers", () => {
    const thinking = { type: "enabled", budget_tokens: Number.MAX_SAFE_INTEGER };
    const big = request({ max_tokens: Number.MAX_SAFE_INTEGER, top_k: 2 ** 32 - 1, thinking });
    const sent = GenerateRequest.fromPartial({ ...big, requestId: "r" });
    const received = GenerateRequest.decode(GenerateRequest.encode(sent).finish());
    expect(received).toMatchObject({ maxOutputTokens: 262_144, reasoning: { budgetTokens: 262_143 } });
  });

  test("max_tokens is clamped to the window", () => {
    expect(request({ max_tokens: 1 }).maxOutputTokens).toBe(1);
    expect(request({ max_tokens: 300_000 }).maxOutputTokens).toBe(262_144);
    expect(request({ max_tokens: 300_000, model: "svc-glm53" }).maxOutputTokens).toBe(300_000);
  });

  test("system text, tools and their choice come before the conversation", () => {
    const tools = [{ name: "read", input_schema: {} }];
    const canonical = request({
      system: "Be brief.",
      tools,
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    });
    expect(canonical.messages.map(({ role }) => role)).toEqual([Role.SYSTEM, Role.USER]);
    expect(canonical.tools).toHaveLength(1);
    expect(canonical.toolChoice).toMatchObject({ mode: ToolChoiceMode.REQUIRED, disableParallelCalls: true });
  });

  test.each([
    ["output_config", { output_config: { format: { type: "json_schema", schema: { b: 1, a: 2 } } } }],
    ["output_format", { output_format: { type: "json_schema", schema: { b: 1, a: 2 } } }],
  ])("a schema in %s binds the answer", (_, more) => {
    expect(request(more).outputConstraint).toEqual({
      kind: { $case: "jsonSchema", value: { name: "output", schemaJson: '{"b":1,"a":2}', strict: true } },
    });
  });

  test("the user is an affinity hint, and an invalid one is not refused", () => {
    expect(request({ metadata: { user_id: "u1" } }).cache?.affinityKey).toBe("u1");
    expect(request({ metadata: { user_id: 7 } })).toEqual(request());
    expect(request({ metadata: "u1" })).toEqual(request());
  });

  test("cache_control beside the messages marks their end", () => {
    const { cache, messages } = request({ system: "s", cache_control: { type: "ephemeral", ttl: "1h" } });
    expect(cache?.ttl).toEqual({ seconds: 3600, nanos: 0 });
    expect(messages.map(({ parts }) => parts[0]?.cacheBreakpoint?.ttl?.seconds)).toEqual([undefined, 3600]);
  });

  test("images are refused for a model without image input", () => {
    const data = Buffer.from("89504e470d0a1a0a", "hex").toString("base64");
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data } };
    const body = { ...minimal, messages: [{ role: "user", content: [image] }] };
    const textOnly = { ...context, acceptsImages: (model: string) => model !== "svc-qwen" };
    expect(errorOf(() => checkMessagesBody(body, textOnly)).message).toContain("messages.0.content.0: ");
    expect(checkMessagesBody({ ...body, model: "svc-glm53" }, textOnly).request.messages).toHaveLength(1);
  });
});

describe("reasoning", () => {
  const { UNSPECIFIED, LOW, MEDIUM, HIGH } = ReasoningEffort;
  const { ENABLED, DISABLED, UNSPECIFIED: DEFAULT } = ReasoningMode;

  test.each([
    [{ thinking: { type: "disabled" } }, { mode: DISABLED, effort: UNSPECIFIED }],
    [{ thinking: { type: "adaptive" } }, { mode: ENABLED, effort: UNSPECIFIED }],
    [{ thinking: { type: "between_tools" } }, { mode: ENABLED, effort: UNSPECIFIED }],
    [{ thinking: { type: "enabled", budget_tokens: 1 } }, { mode: ENABLED, effort: UNSPECIFIED, budgetTokens: 1 }],
    [{ thinking: { type: "enabled", budget_tokens: 16 } }, { mode: ENABLED, effort: UNSPECIFIED, budgetTokens: 15 }],
    [{ thinking: { type: "enabled", budget_tokens: 99999 } }, { mode: ENABLED, effort: UNSPECIFIED, budgetTokens: 15 }],
    [{ output_config: { effort: "none" } }, { mode: DISABLED, effort: UNSPECIFIED }],
    [{ output_config: { effort: "minimal" } }, { mode: DEFAULT, effort: LOW }],
    [{ output_config: { effort: "low" } }, { mode: DEFAULT, effort: LOW }],
    [{ output_config: { effort: "medium" } }, { mode: DEFAULT, effort: MEDIUM }],
    [{ output_config: { effort: "high" } }, { mode: DEFAULT, effort: HIGH }],
    [{ output_config: { effort: "xhigh" } }, { mode: DEFAULT, effort: HIGH }],
    [
      { output_config: { effort: "max" }, thinking: { type: "adaptive" } },
      { mode: ENABLED, effort: HIGH },
    ],
  ])("%j", (more, expected) => {
    expect(request(more).reasoning).toEqual(expected);
  });
});

describe("faults", () => {
  test.each([
    [[], "The request body must be a JSON object."],
    ["x", "The request body must be a JSON object."],
    [{}, "model: Field required"],
    [{ model: "svc-qwen" }, "messages: Field required"],
    [{ model: "svc-qwen", messages: [{ role: "user", content: "x" }] }, "max_tokens: Field required"],
    [{ ...minimal, messages: [] }, "messages: List should have at least 1 item"],
    [{ ...minimal, messages: "x" }, "messages: Input should be an array"],
    [{ ...minimal, max_tokens: 0 }, "max_tokens: Input should be greater than or equal to 1"],
    [{ ...minimal, max_tokens: 1.5 }, "max_tokens: Input should be an integer"],
    [{ ...minimal, max_tokens: null }, "max_tokens: Input should be a number"],
    [{ ...minimal, temperature: 1.1 }, "temperature: Input should be less than or equal to 1"],
    [{ ...minimal, temperature: -0.1 }, "temperature: Input should be greater than or equal to 0"],
    [{ ...minimal, top_p: 1.1 }, "top_p: Input should be less than or equal to 1"],
    [{ ...minimal, top_k: -1 }, "top_k: Input should be greater than or equal to 0"],
    [{ ...minimal, stream: "yes" }, "stream: Input should be a boolean"],
    [{ ...minimal, stop_sequences: [1] }, "stop_sequences.0: Input should be a string"],
    [{ ...minimal, thinking: {} }, "thinking.type: Field required"],
    [
      { ...minimal, thinking: { type: "on" } },
      "thinking.type: Input should be 'enabled', 'disabled', 'adaptive', 'between_tools'",
    ],
    [{ ...minimal, thinking: { type: "enabled" } }, "thinking.budget_tokens: Field required"],
    [
      { ...minimal, thinking: { type: "enabled", budget_tokens: 0 } },
      "thinking.budget_tokens: Input should be greater than or equal to 1",
    ],
    [
      { ...minimal, output_config: { format: { type: "json_object" } } },
      "output_config.format.type: Input should be 'json_schema'",
    ],
    [{ ...minimal, output_config: { format: { type: "json_schema" } } }, "output_config.format.schema: Field required"],
    [
      { ...minimal, output_format: { type: "json_schema", schema: 1 } },
      "output_format.schema: Input should be an object",
    ],
    [{ ...minimal, container: "c" }, "container: This field is not supported. Nothing is kept between requests."],
    [{ ...minimal, previous_message_id: "m" }, "previous_message_id: This field is not supported."],
    [{ ...minimal, conversation: {} }, "conversation: This field is not supported."],
    [{ ...minimal, mcp_servers: [{}] }, "mcp_servers: This field is not supported."],
  ])("%j is refused with the path of the field", (body, message) => {
    const error = fault(body);
    expect(error.type).toBe("invalid_request_error");
    expect(error.message.slice(0, message.length)).toBe(message);
  });

  test("an unknown model is refused, and named only if it resembles one", () => {
    const error = fault({ ...minimal, model: "gpt-4o" });
    expect(error).toMatchObject({ type: "invalid_request_error" });
    expect(error.message).toContain("'gpt-4o'");
    expect(fault({ ...minimal, model: "my SECRET" }).message).not.toContain("SECRET");
  });

  test("the system role is checked first", () => {
    const body = { messages: [{ role: "system", content: "x" }], thread: {}, max_tokens: "x" };
    expect(fault(body).message).toMatch(/^messages\.0\.role: Unexpected role 'system'\./);
  });

  test("a thread is refused with the details that make the SDK send the whole conversation", () => {
    const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
    const continued = [{ role: "user", content: [{ type: "tool_result", tool_use_id: "t" }] }];
    expect(fault({ ...minimal, thread: { type: "create" } }).details).toEqual(details);
    expect(fault({ ...minimal, messages: continued, thread: { type: "continue" } }).details).toEqual(details);
  });
});
