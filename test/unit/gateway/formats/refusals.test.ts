import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { statusOf } from "../../../../gateway/formats/error-envelope.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import { compaction, inputTokens, responses } from "../../../../gateway/formats/responses/request.ts";
import { contextOf, faultOf, PNG, prepare, refusal, requestOf, thrownBy } from "./fixture.ts";

/* The first fault of a body becomes an error with the path of its field. Each numbered case of the contract has one of them. */

const user = { role: "user", content: "hi" };
const strings = (count: number) => Array.from({ length: count }, (_, at) => `${at}`);
const pairs = (count: number) => Object.fromEntries(strings(count).map((key) => [key, 1]));
/** A schema whose objects are nested `levels` deep, the outermost counted. */
const nested = (levels: number): object => (levels === 1 ? {} : { items: nested(levels - 1) });
const sized = (bytes: number) => ({ description: "x".repeat(bytes - '{"description":""}'.length) });

describe("chat", () => {
  const says = (part: unknown) => ({ messages: [{ role: "user", content: [{ type: "text", text: "a" }, part] }] });
  const system = (part: unknown) => ({ messages: [{ role: "system", content: [part] }] });
  const assistant = (fields: object) => ({ messages: [{ role: "assistant", ...fields }] });
  const call = (id: string, name = "f") => ({ id, type: "function", function: { name, arguments: "{}" } });
  const withCall = (value: unknown) => assistant({ tool_calls: [value] });
  const answer = (id: string) => ({ role: "tool", tool_call_id: id, content: "done" });
  const calls = { role: "assistant", tool_calls: [call("a"), call("b")] };
  const image = (fields: object) => ({
    type: "image_url",
    image_url: { url: `data:image/png;base64,${PNG}`, ...fields },
  });
  const tool = (name: unknown, parameters: unknown = {}) => ({ type: "function", function: { name, parameters } });
  const tools = (...more: unknown[]) => ({ tools: [tool("a"), ...more] });
  const choice = (tool_choice: unknown) => ({ ...tools(), tool_choice });
  const allowed = (allowed_tools: object) => choice({ type: "allowed_tools", allowed_tools });
  const format = (json_schema: unknown) => ({ response_format: { type: "json_schema", json_schema } });
  const schema = (parameters: unknown) => tools(tool("b", parameters));
  const SCHEMA = "invalid_function_parameters tools[1].function.parameters";

  test.each<[object, string]>([
    [{ max_tokens: -0 }, "integer_below_min_value max_tokens"],
    [{ max_tokens: 1e21 }, "integer_above_max_value max_tokens"],
    [{ max_tokens: Number.POSITIVE_INFINITY }, "invalid_type max_tokens"],
    [{ max_completion_tokens: 0, max_tokens: 5 }, "integer_below_min_value max_completion_tokens"],
    [{ temperature: -0.1 }, "decimal_below_min_value temperature"],
    [{ top_p: -0.1 }, "decimal_below_min_value top_p"],
    [{ frequency_penalty: 2.5 }, "decimal_above_max_value frequency_penalty"],
    [{ presence_penalty: -2.5 }, "decimal_below_min_value presence_penalty"],
    [{ repetition_penalty: 0 }, "integer_below_min_value repetition_penalty"],
    [{ repetition_penalty: 10.5 }, "decimal_above_max_value repetition_penalty"],
    [{ top_k: -2 }, "integer_below_min_value top_k"],
    [{ top_k: 2 ** 31 }, "integer_above_max_value top_k"],
    [{ min_p: 1.5 }, "decimal_above_max_value min_p"],
    [{ seed: 1.5 }, "invalid_type seed"],
    [{ top_logprobs: 21 }, "integer_above_max_value top_logprobs"],
    [{ stop: strings(17) }, "array_above_max_length stop"],
    [{ logit_bias: [] }, "invalid_type logit_bias"],
    [{ logit_bias: { "-1": 1 } }, "invalid_value logit_bias"],
    [{ logit_bias: { "4294967296": 1 } }, "invalid_value logit_bias"],
    [{ logit_bias: { hello: 1 } }, "invalid_value logit_bias"],
    [{ logit_bias: { "1": 101 } }, "invalid_value logit_bias"],
    [{ logit_bias: { "1": -101 } }, "invalid_value logit_bias"],
    [{ logit_bias: { "1": "1" } }, "invalid_value logit_bias"],
    [{ logit_bias: pairs(1_025) }, "array_above_max_length logit_bias"],
    [{ n: 0 }, "integer_below_min_value n"],
    [{ modalities: ["text", "audio"] }, "unsupported_value modalities"],
    [{ reasoning_effort: "constructor" }, "invalid_value reasoning_effort"],
    [{ prompt_cache_key: "😀".repeat(513) }, "string_above_max_length prompt_cache_key"],
    [{ prompt_cache_options: { ttl: "9h" } }, "invalid_value prompt_cache_options.ttl"],
    [{ prompt_cache_options: { prewarm: 1 } }, "invalid_type prompt_cache_options.prewarm"],
    [{ messages: new Array(100_001).fill(user) }, "array_above_max_length messages"],
    [{ messages: [{ content: "x" }] }, "missing_required_parameter messages[0].role"],
    [{ messages: ["x"] }, "invalid_type messages[0]"],
    [{ messages: [{ role: "function", name: "f", content: "x" }] }, "invalid_value messages[0].role"],
    [{ messages: [{ role: "constructor" }] }, "invalid_value messages[0].role"],
    [{ messages: [{ ...user, content: { type: "text" } }] }, "invalid_type messages[0].content"],
    [says(null), "invalid_type messages[0].content[1]"],
    [says({ text: "x" }), "missing_required_parameter messages[0].content[1].type"],
    [says({ type: "text" }), "missing_required_parameter messages[0].content[1].text"],
    [says({ type: "refusal", refusal: "x" }), "invalid_value messages[0].content[1].type"],
    [says({ type: "image_url" }), "missing_required_parameter messages[0].content[1].image_url"],
    [says(image({ detail: "max" })), "invalid_value messages[0].content[1].image_url.detail"],
    [system(image({})), "invalid_value messages[0].content[0].type"],
    [system({ type: "file", file: {} }), "unsupported_value messages[0].content[0].type"],
    [assistant({ content: [image({})] }), "invalid_value messages[0].content[0].type"],
    [assistant({ content: "x", function_call: { name: "f" } }), "unsupported_parameter messages[0].function_call"],
    [withCall({ ...call("a"), id: undefined }), "missing_required_parameter messages[0].tool_calls[0].id"],
    [withCall(call("")), "invalid_value messages[0].tool_calls[0].id"],
    [withCall(call("\ud800")), "invalid_value messages[0].tool_calls[0].id"],
    [withCall(call("a", "a\nb")), "invalid_value messages[0].tool_calls[0].function.name"],
    [withCall({ ...call("a"), type: undefined }), "missing_required_parameter messages[0].tool_calls[0].type"],
    [withCall({ ...call("a"), type: "custom" }), "unsupported_value messages[0].tool_calls[0].type"],
    [withCall({ id: "a", type: "function" }), "missing_required_parameter messages[0].tool_calls[0].function"],
    [assistant({ tool_calls: [call("a"), call("a")] }), "invalid_value messages[0].tool_calls[1].id"],
    [{ messages: [{ role: "tool", content: "x" }] }, "missing_required_parameter messages[0].tool_call_id"],
    [{ messages: [calls, answer("a"), user] }, "invalid_value messages[2].role"],
    [{ messages: [user, calls, answer("a")] }, "invalid_value messages[1].tool_calls"],
    [{ messages: [calls, answer("a"), answer("b"), user, answer("a")] }, "invalid_value messages[4].tool_call_id"],
    [tools(...strings(512).map((name) => tool(name))), "array_above_max_length tools"],
    [tools({ function: { name: "x" } }), "missing_required_parameter tools[1].type"],
    [tools(tool(undefined)), "missing_required_parameter tools[1].function.name"],
    [tools(tool(7)), "invalid_type tools[1].function.name"],
    [tools(tool("")), "invalid_value tools[1].function.name"],
    [tools(tool("a b")), "invalid_value tools[1].function.name"],
    [tools(tool("a\n")), "invalid_value tools[1].function.name"],
    [{ tools: [tool("a"), tool("a", { description: "other" })] }, "invalid_value tools[1].function.name"],
    [tools(tool("<|im_end|>")), "invalid_value tools[1].function.name"],
    [tools(tool("x".repeat(129))), "invalid_value tools[1].function.name"],
    [schema([]), "invalid_type tools[1].function.parameters"],
    [schema(nested(65)), SCHEMA],
    [schema(sized(256 * 1024 + 1)), SCHEMA],
    [tools({ type: "function", function: { name: "b", strict: true, parameters: sized(64 * 1024 + 1) } }), SCHEMA],
    // As text, the number would be null.
    [schema({ maximum: Number.POSITIVE_INFINITY }), SCHEMA],
    [schema({ $ref: "https://example.com/schema.json" }), SCHEMA],
    [schema({ $ref: "file:///etc/passwd" }), SCHEMA],
    [schema({ properties: { a: { $ref: "other.json#/a" } } }), SCHEMA],
    [schema({ anyOf: [{ $dynamicRef: "http://example.com" }] }), SCHEMA],
    [schema({ properties: { properties: { $ref: "http://example.com" } } }), SCHEMA],
    [schema({ properties: { default: { $ref: "http://example.com" } } }), SCHEMA],
    [{ tools: [], tool_choice: tool("a") }, "invalid_value tool_choice"],
    [{ tool_choice: "required" }, "invalid_value tool_choice"],
    [choice("any"), "invalid_value tool_choice"],
    [choice({}), "missing_required_parameter tool_choice.type"],
    [choice({ type: "custom" }), "unsupported_value tool_choice.type"],
    [choice({ type: "tool" }), "invalid_value tool_choice.type"],
    [allowed({ mode: "none", tools: [] }), "invalid_value tool_choice.allowed_tools.mode"],
    [allowed({ mode: "auto", tools: [] }), "empty_array tool_choice.allowed_tools.tools"],
    [
      allowed({ mode: "auto", tools: [{ type: "custom" }] }),
      "unsupported_value tool_choice.allowed_tools.tools[0].type",
    ],
    [allowed({ mode: "auto", tools: [tool("z")] }), "invalid_value tool_choice"],
    [{ response_format: {} }, "missing_required_parameter response_format.type"],
    [format(undefined), "missing_required_parameter response_format.json_schema"],
    [format({ schema: {} }), "missing_required_parameter response_format.json_schema.name"],
    [format({ name: "a b", schema: {} }), "invalid_value response_format.json_schema.name"],
    [format({ name: "n" }), "missing_required_parameter response_format.json_schema.schema"],
    [format({ name: "n", schema: { $ref: "x" } }), "invalid_json_schema response_format.json_schema.schema"],
    [format({ name: "n", schema: sized(256 * 1024 + 1) }), "invalid_json_schema response_format.json_schema.schema"],
  ])("%#: %j", (fields, expected) => {
    expect(refusal(chat, fields)).toBe(expected);
  });

  test("the deepest and the largest schema pass", () => {
    expect(() => requestOf(chat, tools(tool("b", nested(64)), tool("c", sized(256 * 1024))))).not.toThrow();
  });

  test("the most useful fault is reported first", () => {
    const faults = { temperature: 9, tools: 1, messages: [] };
    expect(refusal(chat, { ...faults, model: undefined })).toContain("model");
    expect(refusal(chat, faults)).toContain("messages");
    expect(refusal(chat, { ...faults, messages: [{}] })).toContain("temperature");
    expect(refusal(chat, { tools: 1, messages: [{}] })).toContain("tools");
    expect(refusal(chat, { messages: [{}] })).toContain("messages[0].role");
  });
});

describe("messages", () => {
  const says = (content: unknown) => ({ messages: [{ role: "user", content }] });
  const said = (content: unknown) => ({ messages: [{ role: "assistant", content }, user] });
  const call = (id: string) => ({ type: "tool_use", id, name: "read", input: {} });
  const calls = (...ids: string[]) => ({ role: "assistant", content: ids.map(call) });
  const result = (id: string, content: unknown = "ok") => ({ type: "tool_result", tool_use_id: id, content });
  const results = (...content: object[]) => ({ role: "user", content });
  const image = (source?: object) => says([{ type: "image", source }]);
  const tool = (name: string, more: object = {}) => ({ name, input_schema: {}, ...more });
  const unexpected =
    "unexpected `tool_use_id` found in `tool_result` blocks. " +
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
  const unanswered =
    "`tool_use` ids were found without `tool_result` blocks immediately after. " +
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message.";
  const misplaced = (type: string, places: string) =>
    `messages.0.content.0.type: '${type}' blocks may not stand here, only in: ${places}.`;

  test.each<[object, string]>([
    [{ messages: "x" }, "messages: Input should be an array"],
    [{ messages: ["x"] }, "messages.0: Input should be an object"],
    [{ messages: new Array(100_001).fill(user) }, "messages: List should have at most 100000 items"],
    [{ messages: [{ role: "developer", content: "x" }] }, "messages.0.role: Input should be 'user', 'assistant'"],
    [says(null), "messages.0.content: Field required"],
    [says(7), "messages.0.content: Input should be a string or an array of content blocks"],
    [says(["x"]), "messages.0.content.0: Input should be an object"],
    [
      says([{ type: "constructor" }]),
      "messages.0.content.0.type: Input should be 'text', 'image', 'document', 'search_result', ",
    ],
    [says([{ type: "tool_use" }]), misplaced("tool_use", "assistant")],
    [says([{ type: "thinking" }]), misplaced("thinking", "assistant")],
    [said([{ type: "tool_result" }]), misplaced("tool_result", "user")],
    [said([{ type: "image" }]), misplaced("image", "user, tool_result, document")],
    [said([{ ...call(""), name: "n" }]), "messages.0.content.0.id: expected a non-empty string."],
    [image(), "messages.0.content.0.source: Field required"],
    [image({ type: "url", url: "https://a.test/x.png" }), "messages.0.content.0.source.url: Only 'data:' URLs"],
    [image({ type: "file", file_id: "f" }), "messages.0.content.0.source.type: Files are not stored here"],
    [image({ type: "disk" }), "messages.0.content.0.source.type: Input should be 'base64', 'url'"],
    [image({ type: "base64", data: PNG }), "messages.0.content.0.source.media_type: Field required"],
    [
      image({ type: "base64", media_type: "image/gif", data: "Qk0=" }),
      "messages.0.content.0.source.data: the data is not",
    ],
    [
      says([{ type: "document", source: { type: "file" } }]),
      "messages.0.content.0.source.type: Only documents of the types",
    ],
    [{ messages: [results(result("t"))] }, `messages.0.content.0: ${unexpected}`],
    [
      { messages: [calls("t"), results(result("t")), { role: "assistant", content: "b" }, results(result("t"))] },
      `messages.3.content.0: ${unexpected}`,
    ],
    [
      { messages: [calls("t"), results(result("t"), result("t"))] },
      "messages.1.content.1: each tool_use must have a single result.",
    ],
    [{ messages: [user, calls("t"), user] }, `messages.1: ${unanswered}`],
    [{ messages: [user, calls("t")] }, `messages.1: ${unanswered}`],
    [{ messages: [calls("t", "t"), results(result("t"))] }, "messages.0.content.1.id: `tool_use` ids must be unique."],
    [
      { messages: [calls("t"), results(result("t", [{ type: "tool_use" }]))] },
      "messages.1.content.0.content.0.type: 'tool_use' blocks may not stand here, only in: assistant.",
    ],
    [{ system: 7 }, "system: Input should be a string or an array of text blocks"],
    [{ system: ["x"] }, "system.0: Input should be an object"],
    [{ system: [{ type: "text", text: "x" }, { type: "image" }] }, "system.1.type: Input should be 'text'"],
    [{ max_tokens: 0 }, "max_tokens: Input should be greater than or equal to 1"],
    [{ max_tokens: 1.5 }, "max_tokens: Input should be an integer"],
    [{ max_tokens: null }, "max_tokens: Input should be a number"],
    [{ temperature: -0.1 }, "temperature: Input should be greater than or equal to 0"],
    [{ top_p: -0.1 }, "top_p: Input should be greater than or equal to 0"],
    [{ top_p: 1.1 }, "top_p: Input should be less than or equal to 1"],
    [{ top_k: -1 }, "top_k: Input should be greater than or equal to 0"],
    [{ top_k: 2 ** 32 }, "top_k: Input should be less than or equal to 4294967295"],
    [{ top_k: 0.5 }, "top_k: Input should be an integer"],
    [{ thinking: { type: "enabled", budget_tokens: 0 } }, "thinking.budget_tokens: "],
    [{ thinking: { type: "deep" } }, "thinking.type: "],
    [{ stop_sequences: [1] }, "stop_sequences.0: Input should be a string"],
    [{ stop_sequences: strings(17) }, "stop_sequences: List should have at most 16 items"],
    [
      { output_config: { format: { type: "json_object" } } },
      "output_config.format.type: Input should be 'json_schema'",
    ],
    [{ tools: {} }, "tools: Input should be an array of tools"],
    [{ tools: strings(513).map((name) => tool(name)) }, "tools: List should have at most 512 items"],
    [{ tools: [tool("a b")] }, "tools.0.name: expected 1 to 128 characters"],
    [{ tools: [tool("a", { input_schema: [] })] }, "tools.0.input_schema: Input should be an object"],
    [
      { tools: [tool("a", { strict: true, input_schema: sized(64 * 1024 + 1) })] },
      "tools.0.input_schema: the strict schema is larger than 65536 bytes",
    ],
    [
      { tools: [tool("a"), tool("a"), { ...tool("a"), description: "b" }] },
      "tools.2.name: another tool of this name is declared, and differs.",
    ],
    // The name of an unknown type is the caller's text.
    [
      { tools: [{ type: "SECRET", name: "x" }] },
      "tools.0.input_schema: Field required; a tool of this type is not offered here, only tools that the caller runs.",
    ],
    [{ tool_choice: { type: "any" } }, "tool_choice: "],
    [{ tool_choice: "auto" }, "tool_choice: Input should be an object"],
    [{ tool_choice: { type: "required" } }, "tool_choice.type: Input should be 'auto', 'any', 'tool', 'none'"],
    [{ tools: [tool("a")], tool_choice: { type: "tool" } }, "tool_choice.name: Field required"],
    [
      { compaction: { type: "summarize" }, context_management: { edits: [{ type: "clear_tool_uses_20250919" }] } },
      "compaction: It cannot be combined with 'context_management'.",
    ],
  ])("%#: %j", (fields, expected) => {
    expect(refusal(messages, fields).slice(0, expected.length)).toBe(expected);
  });

  test("an accepted system message holds text only", () => {
    const list = [user, { role: "system", content: [{ type: "image" }] }];
    expect(refusal(messages, { messages: list }, { systemRole: "merge" })).toContain("messages.1.content.0.type: ");
  });
});

describe("responses", () => {
  const says = (part: object, role = "user") => ({ input: [{ role, content: [part] }] });
  const image = (more: object) => ({ type: "input_image", image_url: `data:image/png;base64,${PNG}`, ...more });
  const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
  const gave = (output: unknown) => ({ input: [call("c"), { type: "function_call_output", call_id: "c", output }] });
  const tool = (name: string) => ({ type: "function", name });
  const group = (name: string, ...tools: object[]) => ({ type: "namespace", name, tools });
  const tools = (...list: object[]) => ({ tools: list });
  const choice = (tool_choice: unknown) => ({ tools: [tool("read"), group("fs", tool("write"))], tool_choice });
  const allowed = (mode: string, ...list: object[]) => choice({ type: "allowed_tools", mode, tools: list });
  const trigger = { type: "compaction_trigger" };
  const format = (value: object) => ({ text: { format: value } });

  test.each<[object, string]>([
    [{ input: [{}] }, "missing_required_parameter input[0].type"],
    [{ input: ["x"] }, "invalid_type input[0]"],
    [{ input: new Array(100_001).fill(user) }, "array_above_max_length input"],
    [{ input: [{ type: "surprise" }] }, "invalid_value input[0].type"],
    [{ input: [{ role: "tool", content: "x" }] }, "invalid_value input[0].role"],
    [{ input: [{ type: "message", content: "x" }] }, "missing_required_parameter input[0].role"],
    [says({}), "missing_required_parameter input[0].content[0].type"],
    [says({ type: "text", text: "x" }), "invalid_value input[0].content[0].type"],
    [says({ type: "input_file" }), "unsupported_value input[0].content[0].type"],
    [says(image({ image_url: "https://example.com/a.png" })), "unsupported_value input[0].content[0].image_url"],
    [says(image({ image_url: null })), "missing_required_parameter input[0].content[0].image_url"],
    [says(image({ file_id: "file_1" })), "unsupported_parameter input[0].content[0].file_id"],
    [says(image({ detail: "tiny" })), "invalid_value input[0].content[0].detail"],
    [says(image({}), "system"), "unsupported_value input[0].content[0]"],
    [{ input: [call("")] }, "invalid_value input[0].call_id"],
    [{ input: [{ ...call("c"), call_id: undefined }] }, "missing_required_parameter input[0].call_id"],
    [gave(undefined), "missing_required_parameter input[1].output"],
    [gave({}), "invalid_type input[1].output"],
    [{ input: [{ type: "function_call_output", call_id: "c", output: "x" }] }, "invalid_value input[0].call_id"],
    [{ input: "" }, "invalid_value input"],
    [{ input: null }, "missing_required_parameter input"],
    [{ input: [trigger, user] }, "invalid_value input[0].type"],
    [{ input: [user, trigger, trigger] }, "invalid_value input[1].type"],
    [{ input: [trigger] }, "invalid_value input[0].type"],
    [{ input: [{ type: "compaction" }] }, "missing_required_parameter input[0].encrypted_content"],
    [
      { input: [{ type: "compaction", encrypted_content: null }] },
      "missing_required_parameter input[0].encrypted_content",
    ],
    [{ background: true }, "unsupported_value background"],
    [{ previous_response_id: "x" }, "unsupported_parameter previous_response_id"],
    [{ conversation: "c" }, "unsupported_parameter conversation"],
    [{ prompt: { id: "p" } }, "unsupported_parameter prompt"],
    [{ truncation: "auto" }, "unsupported_value truncation"],
    [{ include: ["file_search_call.results"] }, "unsupported_value include"],
    [{ moderation: { model: "m" } }, "unsupported_parameter moderation"],
    [{ context_management: [{ type: "compaction" }] }, "unsupported_parameter context_management"],
    [{ reasoning: { foo: 1 } }, "unknown_parameter reasoning.foo"],
    [{ stream_options: { foo: 1 } }, "unknown_parameter stream_options.foo"],
    [{ reasoning: { context: "other" } }, "unsupported_value reasoning.context"],
    [{ reasoning: { mode: "other" } }, "unsupported_value reasoning.mode"],
    [
      { stream_options: { reasoning_summary_delivery: "x" } },
      "unsupported_value stream_options.reasoning_summary_delivery",
    ],
    [{ reasoning: { summary: "long" } }, "invalid_value reasoning.summary"],
    [{ reasoning: { effort: "huge" } }, "invalid_value reasoning.effort"],
    [{ temperature: -0.1 }, "decimal_below_min_value temperature"],
    [{ top_p: 1.5 }, "decimal_above_max_value top_p"],
    [{ top_logprobs: 21 }, "integer_above_max_value top_logprobs"],
    [{ max_output_tokens: 0 }, "integer_below_min_value max_output_tokens"],
    [{ frequency_penalty: 2.5 }, "decimal_above_max_value frequency_penalty"],
    [{ presence_penalty: -2.5 }, "decimal_below_min_value presence_penalty"],
    [{ max_tool_calls: 0 }, "integer_below_min_value max_tool_calls"],
    [{ prompt_cache_options: { ttl: "5m" } }, "invalid_value prompt_cache_options.ttl"],
    [{ prompt_cache_options: { other: 1 } }, "unknown_parameter prompt_cache_options.other"],
    [
      {
        input: [{ role: "user", content: [{ type: "input_text", text: "a", prompt_cache_breakpoint: { ttl: "5m" } }] }],
      },
      "invalid_value input[0].content[0].prompt_cache_breakpoint.ttl",
    ],
    [
      {
        input: [{ role: "user", content: "a" }, { type: "compaction_trigger" }],
        prompt_cache_options: { prewarm: true },
      },
      "unsupported_value prompt_cache_options.prewarm",
    ],
    [{ prompt_cache_key: "😀".repeat(513) }, "string_above_max_length prompt_cache_key"],
    [{ metadata: { a: 1 } }, "invalid_type metadata"],
    [{ metadata: { ["k".repeat(65)]: "v" } }, "string_above_max_length metadata"],
    [{ metadata: { k: "v".repeat(513) } }, "string_above_max_length metadata"],
    [{ metadata: Object.fromEntries(strings(17).map((key) => [key, key])) }, "array_above_max_length metadata"],
    [{ client_metadata: { a: {} } }, "invalid_type client_metadata"],
    [{ client_metadata: { a: "é".repeat(8_192) } }, "string_above_max_length client_metadata"],
    [{ text: { foo: 1 } }, "unknown_parameter text.foo"],
    [{ text: { verbosity: "loud" } }, "invalid_value text.verbosity"],
    [format({}), "missing_required_parameter text.format.type"],
    [format({ type: "grammar" }), "invalid_value text.format.type"],
    [format({ type: "text", foo: 1 }), "unknown_parameter text.format.foo"],
    [format({ type: "json_schema", json_schema: { name: "n" } }), "missing_required_parameter text.format.name"],
    [format({ type: "json_object", name: "n" }), "unknown_parameter text.format.name"],
    [format({ type: "json_schema", name: "a b", schema: {} }), "invalid_value text.format.name"],
    [
      format({ type: "json_schema", name: "n", schema: { $ref: "https://a.test" } }),
      "invalid_json_schema text.format.schema",
    ],
    [tools({ type: "function", function: { name: "read" } }), "missing_required_parameter tools[0].name"],
    [tools(tool("no spaces")), "invalid_value tools[0].name"],
    [tools(tool("a__b"), group("a", tool("b"))), "invalid_value tools[1].tools[0].name"],
    [tools(group("a", tool("b__c")), group("a__b", tool("c"))), "invalid_value tools[1].tools[0].name"],
    [
      tools(group("a", { ...tool("b"), strict: true, parameters: sized(64 * 1024 + 1) })),
      "invalid_function_parameters tools[0].tools[0].parameters",
    ],
    [tools(group("a", group("b"))), "unsupported_value tools[0].tools[0].type"],
    [tools(group("a", { type: "web_search", name: "c" })), "unsupported_value tools[0].tools[0].type"],
    [tools(tool("a"), { ...tool("a"), description: "other" }), "invalid_value tools[1].name"],
    [tools(tool("a"), { ...tool("a"), type: "custom" }), "invalid_value tools[1].name"],
    [tools(group("g", tool("a")), group("g", { ...tool("a"), strict: true })), "invalid_value tools[1].tools[0].name"],
    [tools(group("")), "invalid_value tools[0].name"],
    [tools(group("n".repeat(100), tool("t".repeat(100)))), "invalid_value tools[0].tools[0].name"],
    [tools(...["x", "y"].map((name) => group(name, ...strings(300).map(tool)))), "array_above_max_length tools"],
    [{ tool_choice: "required" }, "invalid_value tool_choice"],
    [{ tool_choice: tool("read") }, "invalid_value tool_choice"],
    [choice("any"), "invalid_value tool_choice"],
    [choice({}), "missing_required_parameter tool_choice.type"],
    [choice({ type: "web_search_preview" }), "unsupported_value tool_choice.type"],
    [choice({ type: "custom", name: "read" }), "invalid_value tool_choice"],
    [choice({ ...tool("read"), strict: true }), "unknown_parameter tool_choice.strict"],
    [choice({ type: "allowed_tools", mode: "auto", tools: [tool("read")], x: 1 }), "unknown_parameter tool_choice.x"],
    [choice(tool("write")), "invalid_value tool_choice"],
    [allowed("none"), "invalid_value tool_choice.mode"],
    [allowed("auto"), "empty_array tool_choice.tools"],
    [allowed("auto", { type: "mcp" }), "unsupported_value tool_choice.tools[0].type"],
    [allowed("auto", tool("other")), "invalid_value tool_choice.tools[0]"],
  ])("%#: %j", (fields, expected) => {
    expect(refusal(responses, fields)).toBe(expected);
  });

  test.each([
    ...["web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "computer_call"],
    ...["computer_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"],
    ...["program", "program_output"],
  ])("an item %s is unsupported", (type) => {
    expect(refusal(responses, { input: [{ type }] })).toBe("unsupported_value input[0].type");
    const skipped = requestOf(responses, { input: [{ type }, user] }, { unsupportedTools: "skip" });
    expect(skipped.messages).toEqual(requestOf(responses, { input: [user] }).messages);
  });

  test.each([{ type: "item_reference", id: "rs_1" }, { id: "rs_1" }])("the refusal of %j names the fix", (item) => {
    const error = thrownBy(() => prepare(responses, { input: [user, item] }));
    expect(faultOf(() => prepare(responses, { input: [user, item] }))).toBe("unsupported_value input[1].type");
    expect(error.message).toMatch(/item_reference.*Set 'store' to false.*providerOptions\.openai\.store = false/);
  });

  test.each([
    ["web_search_preview_2025_03_11", "The tool type 'web_search_preview_2025_03_11'"],
    ["file_search", "The tool type 'file_search'"],
    ["computer_use_preview", "The tool type 'computer_use_preview'"],
    ["mcp", "The tool type 'mcp'"],
    ["image_generation", "The tool type 'image_generation'"],
    ["zzz", "This tool type"],
  ])("a tool %s is refused, with its name if that is known", (type, subject) => {
    const error = thrownBy(() => prepare(responses, { tools: [tool("f"), { type, name: "x" }] }));
    expect([error.code, error.path]).toEqual(["unsupported_value", ["tools", 1, "type"]]);
    expect(error.message).toBe(`${subject} in 'tools[1].type' is not supported: only tools that the caller runs are.`);
    expect(error.detail).toBe("vendor_tool");
  });

  test.each(["messages", "max_tokens", "response_format"])("the key %s is unknown, null absent", (key) => {
    expect(thrownBy(() => prepare(responses, { [key]: ["x"] })).message).toBe(`Unknown parameter: '${key}'.`);
    for (const format of [responses, compaction, inputTokens])
      expect(() => format.prepare({ model: "svc-qwen", input: "hi", [key]: null }, contextOf())).not.toThrow();
  });

  test("a missing model is reported before a missing input, and both before other faults", () => {
    expect(refusal(responses, { model: undefined, input: undefined, stop: 1 })).toBe(
      "missing_required_parameter model",
    );
    expect(refusal(responses, { input: undefined, stop: 1 })).toBe("missing_required_parameter input");
  });
});

describe.each([chat, messages, responses, compaction])("a body of $name", (format) => {
  test.each([[[]], [null], ["x"], [3], [undefined]])("a body of $name is a JSON object, which %j is not", (body) => {
    const error = thrownBy(() => format.prepare(body, contextOf()));
    expect([error.code, error.path, error.message]).toEqual([
      "invalid_type",
      undefined,
      "The request body must be a JSON object.",
    ]);
  });
});

describe("the model", () => {
  test.each([
    [null, "missing_required_parameter"],
    [7, "invalid_type"],
    ["", "model_not_found"],
    ["svc/qwen", "model_not_found"],
    ["toString", "model_not_found"],
  ])("the model %j is refused", (model, code) => {
    expect(refusal(chat, { model })).toBe(`${code} model`);
  });

  test.each(["qwen", "svc/other", "svc/", "svc/svc/qwen", "other/qwen", "SVC/qwen"])(
    "%s is unknown to responses",
    (model) => {
      expect(refusal(responses, { model })).toBe("model_not_found model");
    },
  );

  const unknown = (model: string, usableModels: string[] = []) =>
    thrownBy(() => prepare(chat, { model }, { usableModels }));

  test("the refusal of an unknown one is a fault of the request; it names the model and those of the key", () => {
    const error = unknown("claude-opus-5-5", ["svc-glm53", "svc-qwen"]);
    const text = "The model 'claude-opus-5-5' does not exist. Your key can use: svc-glm53, svc-qwen.";
    expect([statusOf(error, "a"), error.wording]).toEqual([400, { a: text, b: `model: ${text}` }]);
    expect(unknown("x", strings(40)).message).toMatch(/: 0, .*, 15, and others, which GET \/v1\/models lists\.$/);
    expect(unknown("x").message).toContain("GET /v1/models lists the models of your key.");
  });

  test.each([`svc_live_${"k".repeat(12)}_${"s".repeat(43)}`, "k".repeat(49), "hidden word", "hidden\nword"])(
    "a refusal does not repeat %j, which is no name",
    (model) => {
      expect(unknown(model).message).toMatch(/^The model does not exist\./);
    },
  );
});

/** The setting of Codex, and that of an operator. */
const SECRET = "hidden-word ";

test.each([
  ...[{ model: SECRET }, { cache_ttl: SECRET }, { reasoning: { effort: SECRET } }, { reasoning_effort: SECRET }],
  ...[{ logit_bias: { [SECRET]: 1 } }, { response_format: { type: SECRET } }, { tools: [{ type: SECRET }] }],
  ...[
    { tool_choice: SECRET },
    { messages: [{ role: SECRET }] },
    { messages: [{ role: "user", content: [{ type: SECRET }] }] },
  ],
  { messages: [{ role: "tool", tool_call_id: SECRET, content: "" }] },
  { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: `https://a.test/${SECRET}` } }] }] },
])("a refusal of chat repeats no text of the caller: %j", (fields) => {
  expect(JSON.stringify(thrownBy(() => prepare(chat, fields)))).not.toContain(SECRET.trim());
});

test.each([
  ...[
    { temperature: SECRET },
    { metadata: { [SECRET]: 1 } },
    { client_metadata: { [SECRET]: 1 } },
    { include: [SECRET] },
  ],
  ...[{ previous_response_id: SECRET }, { text: { [SECRET]: 1 } }, { text: { format: { type: "text", [SECRET]: 1 } } }],
  ...[{ model: `svc/${SECRET}` }, { text: { format: { type: SECRET } } }, { tools: [{ type: SECRET }] }],
  ...[{ tool_choice: SECRET }, { input: [{ type: SECRET }] }, { input: [{ role: SECRET, content: "x" }] }],
  { input: [{ type: "function_call_output", call_id: SECRET, output: "x" }] },
  { input: [{ type: "function_call", call_id: SECRET, name: "f", arguments: "{}" }] },
])("a refusal of responses repeats no text of the caller: %j", (fields) => {
  expect(JSON.stringify(thrownBy(() => prepare(responses, fields)))).not.toContain(SECRET.trim());
});

describe("parts of unknown types", () => {
  const odd = { type: "hologram", data: "x" };
  const FORMS = [
    ["chat", chat, (content: object[]) => ({ messages: [{ role: "user", content }] }), { type: "text", text: "hi" }],
    [
      "messages",
      messages,
      (content: object[]) => ({ messages: [{ role: "user", content }] }),
      { type: "text", text: "hi" },
    ],
    [
      "the system text of messages",
      messages,
      (system: object[]) => ({ system, messages: [{ role: "user", content: "hi" }] }),
      { type: "text", text: "hi" },
    ],
    [
      "responses",
      responses,
      (content: object[]) => ({ input: [{ role: "user", content }] }),
      { type: "input_text", text: "hi" },
    ],
  ] as const;

  test.each(FORMS)("%s: they are left out beside text, and refused alone", (_, format, bodyOf, text) => {
    expect(requestOf(format, bodyOf([odd, text, odd])).messages).toEqual(requestOf(format, bodyOf([text])).messages);
    expect(refusal(format, bodyOf([odd]))).toMatch(/\[?0\]?\.type/);
  });

  test.each([
    [chat, "input_text", (content: object[]) => ({ messages: [{ role: "user", content }] }), "text"],
    [responses, "text", (content: object[]) => ({ input: [{ role: "user", content }] }), "input_text"],
  ] as const)("%#: a type of another format is refused beside text: %s", (format, type, bodyOf, own) => {
    const content = [
      { type: own, text: "a" },
      { type, text: "b" },
    ];
    expect(refusal(format, bodyOf(content))).toMatch(/\[1\]\.type/);
  });
});

test.each([
  ["chat", chat, { stop: "x".repeat(1_025) }, "string_above_max_length stop"],
  ["chat", chat, { stop: ["a", "x".repeat(1_025)] }, "string_above_max_length stop[1]"],
  ["responses", responses, { image: { context_compression: "hard" } }, "invalid_value image.context_compression"],
  ["responses", responses, { access_programs: ["x"] }, "unsupported_parameter access_programs"],
  ["responses", responses, { background_options: {} }, "unsupported_parameter background_options"],
  ["responses", responses, { multi_agent: { enabled: true } }, "unsupported_parameter multi_agent"],
] as const)("%s: refusal %#, of a stop text or by name", (_, format, fields, expected) => {
  expect(refusal(format, fields)).toBe(expected);
});

test("a compression of images that changes nothing is taken", () => {
  expect(() => prepare(responses, { image: { context_compression: "auto" } })).not.toThrow();
});

test.each([
  [{ ignore_eos: true, max_tokens: 50 }, 50],
  [{ min_tokens: 20, max_tokens: 50 }, 20],
  [{ min_tokens: 70, max_tokens: 50 }, 50],
  [{ min_tokens: 0, ignore_eos: false }, undefined],
])("%j is for keys of load tests alone: the least tokens are %s", (fields, least) => {
  const context = { ...contextOf({}), loadTests: true };
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], ...fields };
  expect(chat.prepare(body, context).request.sampling?.minOutputTokens).toBe(least);
  const name = "ignore_eos" in fields && fields.ignore_eos ? "ignore_eos" : "min_tokens";
  if (least !== undefined) expect(refusal(chat, fields)).toBe(`unsupported_parameter ${name}`);
  else expect(() => prepare(chat, fields)).not.toThrow();
});

test("statistics of usage in each chunk are taken without effect, as load generators send it", () => {
  const fields = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  expect(() => prepare(chat, fields)).not.toThrow();
});
