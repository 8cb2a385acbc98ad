import { describe, expect, test } from "vitest";
import { countTokens, messages } from "../../../../../gateway/formats/messages/request.ts";
import { ReasoningEffort, ReasoningMode } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { context, errorOf, minimal } from "./fixture.ts";

/* A body of messages becomes a canonical request, or the error of its first fault. */

const request = (more: object = {}, settings = context) => messages.prepare({ ...minimal, ...more }, settings).request;
const fault = (body: unknown, settings = context) => errorOf(() => messages.prepare(body, settings));

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

  test("sampling is passed to the engine unchanged", () => {
    const more = { temperature: 1, top_p: 0, top_k: 0, stop_sequences: ["\n\n", ""] };
    expect(request(more).sampling).toEqual({ temperature: 1, topP: 0, topK: 0, stop: ["\n\n"], logitBias: {} });
  });

  test("max_tokens is clamped to the window", () => {
    expect(request({ max_tokens: 1 }).maxOutputTokens).toBe(1);
    expect(request({ max_tokens: 300_000 }).maxOutputTokens).toBe(262_144);
    expect(request({ max_tokens: 300_000, model: "svc-glm53" }).maxOutputTokens).toBe(300_000);
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
    [{ ...minimal, messages: "x" }, "messages: Input should be an array"],
    [{ ...minimal, max_tokens: 1.5 }, "max_tokens: Input should be an integer"],
    [{ ...minimal, max_tokens: null }, "max_tokens: Input should be a number"],
    [{ ...minimal, temperature: -0.1 }, "temperature: Input should be greater than or equal to 0"],
    [{ ...minimal, stop_sequences: [1] }, "stop_sequences.0: Input should be a string"],
    [
      { ...minimal, output_config: { format: { type: "json_object" } } },
      "output_config.format.type: Input should be 'json_schema'",
    ],
  ])("%j is refused with the path of the field", (body, message) => {
    const error = fault(body);
    expect(error.type).toBe("invalid_request_error");
    expect(error.message.slice(0, message.length)).toBe(message);
  });
});

const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });
const declared = (tools: unknown) => request({ tools }).tools;
const choiceOf = (tool_choice: unknown, tools: unknown = [tool("read"), tool("grep")]) =>
  request({ tools, tool_choice }).toolChoice;

describe("tools", () => {
  test("a tool keeps the text of its schema and its breakpoint", () => {
    const source = {
      type: "custom",
      name: "read",
      description: "Reads.",
      input_schema: { type: "object", properties: { z: {}, a: {} } },
      strict: true,
      cache_control: { type: "ephemeral", ttl: "5m" },
      eager_input_streaming: true,
    };
    expect(declared([source])).toEqual([
      {
        name: "read",
        description: "Reads.",
        parametersJsonSchema: '{"type":"object","properties":{"z":{},"a":{}}}',
        strict: true,
        cacheBreakpoint: { ttl: { seconds: 300, nanos: 0 } },
      },
    ]);
  });

  test("a deferred tool is a tool, its placeholder is not", () => {
    const list = [tool("read", { defer_loading: true }), tool("DeferredToolPlaceholder", { defer_loading: true })];
    expect(declared(list).map(({ name }) => name)).toEqual(["read"]);
    expect(messages.prepare({ ...minimal, tools: list }, context).toolPaths).toEqual([
      ["tools", list.findIndex(({ name }) => name === "read")],
    ]);
    expect(declared([tool("DeferredToolPlaceholder")])).toHaveLength(1);
  });

  test.each([[{ type: "SECRET", name: "x" }, "a tool of this type is not offered"]])(
    "the vendor's tool %j is refused, as its schema is missing",
    (source, explanation) => {
      const { type, message } = errorOf(() => declared([tool("a"), source]));
      expect(type).toBe("invalid_request_error");
      expect(message).toBe(
        `tools.1.input_schema: Field required; ${explanation} here, only tools with a schema of their own.`,
      );
    },
  );

  test.each([
    [{}, "tools: Input should be an array of tools"],
    [[{ name: "a b", input_schema: {} }], "tools.0.name: expected 1 to 128 characters"],
    [[{ name: "a", input_schema: [] }], "tools.0.input_schema: Input should be an object"],
    [[tool("a"), tool("a")], "tools.1.name: Tool names must be unique."],
  ])("%j is refused", (value, message) => {
    expect(errorOf(() => declared(value)).message).toContain(message);
  });
});

describe("tool_choice", () => {
  test("without tools there is no choice", () => {
    expect(choiceOf({ type: "auto" }, [])).toBeUndefined();
    expect(choiceOf({ type: "none" }, [])).toBeUndefined();
    expect(choiceOf(undefined, [])).toBeUndefined();
    expect(errorOf(() => choiceOf({ type: "any" }, [])).message).toContain("tool_choice: ");
  });

  test.each([
    ["auto", "tool_choice: Input should be an object"],
    [{ type: "required" }, "tool_choice.type: Input should be 'auto', 'any', 'tool', 'none'"],
    [{ type: "tool" }, "tool_choice.name: Field required"],
  ])("%j is refused", (value, message) => {
    expect(errorOf(() => choiceOf(value)).message).toBe(message);
  });
});

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").toString("base64");
/** The parts of content in a message of the user, in one of the assistant, or in the result of a call. */
function read(content: unknown, place: "user" | "assistant" | "tool_result" = "user", acceptsImages = true) {
  const user = { role: "user", content: "q" };
  const calls = [{ type: "tool_use", id: "t", name: "n" }];
  const result = { type: "tool_result", tool_use_id: "t", content };
  const list = {
    user: [{ role: "user", content }],
    assistant: [{ role: "assistant", content }, user],
    tool_result: [
      { role: "assistant", content: calls },
      { role: "user", content: [result] },
    ],
  }[place];
  const { messages } = request({ messages: list }, { ...context, acceptsImages: () => acceptsImages });
  if (place !== "tool_result") return messages[0]?.parts;
  const kind = messages[1]?.parts[0]?.kind;
  return kind?.$case === "toolResult" ? kind.value.content : undefined;
}

const textPart = (value: string) => ({ kind: { $case: "text", value: { text: value } } });
const reasoningPart = (value: string) => ({
  kind: { $case: "reasoning", value: { text: value, signature: Buffer.alloc(0), redacted: false } },
});
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };

describe("text", () => {
  test("a string is one text block", () => {
    expect(read("hi")).toEqual([textPart("hi")]);
    expect(read([{ type: "text", text: "hi", citations: null }])).toEqual([textPart("hi")]);
  });

  test("empty text is left out", () => {
    expect(read("")).toEqual([]);
    expect(read([{ type: "text", text: "" }])).toEqual([]);
  });

  test.each([
    ["5m", { seconds: 300, nanos: 0 }],
    ["1h", { seconds: 3600, nanos: 0 }],
    ["9y", undefined],
    [undefined, undefined],
  ])("a breakpoint with ttl %s stays at its part", (ttl, expected) => {
    const parts = read([{ type: "text", text: "a", cache_control: { type: "ephemeral", ttl } }]);
    expect(parts).toEqual([{ ...textPart("a"), cacheBreakpoint: { ttl: expected } }]);
  });
});

describe("images", () => {
  test("base64 and data URLs give the same part", () => {
    const [fromBase64] = read([image]) ?? [];
    const [fromUrl] = read([{ type: "image", source: { type: "url", url: `data:image/png;base64,${PNG}` } }]) ?? [];
    expect(fromBase64).toMatchObject({ kind: { $case: "image", value: { mimeType: "image/png" } } });
    expect(fromUrl).toEqual(fromBase64);
  });

  test.each([
    [{ type: "url", url: "https://a.test/x.png" }, "messages.0.content.0.source.url: Only 'data:' URLs"],
    [{ type: "file", file_id: "f" }, "messages.0.content.0.source.type: Files are not stored here"],
    [{ type: "disk" }, "messages.0.content.0.source.type: Input should be 'base64', 'url'"],
    [{ type: "base64", data: PNG }, "messages.0.content.0.source.media_type: Field required"],
    [{ type: "base64", media_type: "image/gif", data: "Qk0=" }, "messages.0.content.0.source.data: the data is not"],
    [undefined, "messages.0.content.0.source: Field required"],
  ])("the source %j is refused", (source, message) => {
    expect(errorOf(() => read([{ type: "image", source }])).message).toContain(message);
  });

  test("a model without images refuses them by the path of the block", () => {
    const message = "messages.0.content.1: This model does not take images.";
    expect(errorOf(() => read([{ type: "text", text: "a" }, image], "user", false)).message).toBe(message);
  });
});

describe("documents and search results", () => {
  test("a text document becomes tagged text in the prompt", () => {
    const source = { type: "text", media_type: "text/plain", data: "Body." };
    expect(read([{ type: "document", source, title: "T", context: "C", citations: { enabled: true } }])).toEqual([
      textPart("<document>\n<title>T</title>\n<context>C</context>\nBody.\n</document>"),
    ]);
  });

  test("a document of blocks keeps its images, and its breakpoint after the last part", () => {
    const source = { type: "content", content: [{ type: "text", text: "a" }, image, { type: "text", text: "b" }] };
    const parts = read([{ type: "document", source, cache_control: { type: "ephemeral" } }]);
    expect(parts?.map((part) => part.kind?.$case)).toEqual(["text", "image", "text"]);
    expect(parts?.[0]).toEqual(textPart("<document>\na\n"));
    expect(parts?.[2]).toEqual({ ...textPart("b\n</document>"), cacheBreakpoint: { ttl: undefined } });
    expect(read([{ type: "document", source: { type: "content", content: "a" } }])).toEqual([
      textPart("<document>\na\n</document>"),
    ]);
  });

  test.each([["base64"], ["url"], ["file"]])("a document of the type %s is refused", (type) => {
    expect(errorOf(() => read([{ type: "document", source: { type } }])).message).toContain(
      "messages.0.content.0.source.type: Only documents of the types 'text' and 'content' are supported.",
    );
  });

  test("a search result names its source", () => {
    const block = { type: "search_result", source: "wiki", title: "T", content: [{ type: "text", text: "Found." }] };
    expect(read([block])).toEqual([
      textPart("<search_result>\n<title>T</title>\n<source>wiki</source>\nFound.\n</search_result>"),
    ]);
  });

  test("a tool reference inside a tool result is a short text", () => {
    expect(read([{ type: "tool_reference", tool_name: "grep" }], "tool_result")).toEqual([
      textPart("Tool found: grep"),
    ]);
  });
});

describe("an assistant's turn", () => {
  test("withheld thinking is restored from its own signature, and from no other", () => {
    const withheld = (signature: string) => read([{ type: "thinking", thinking: "", signature }], "assistant");
    expect(withheld("sealed:Hm.")).toEqual([reasoningPart("Hm.")]);
    expect(withheld("foreign")).toEqual([]);
  });

  test("a call keeps the order of its arguments", () => {
    const block = { type: "tool_use", id: "t1", name: "read", input: { b: 1, a: [true, null] } };
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1" }] };
    const [turn] = request({ messages: [{ role: "assistant", content: [block] }, result] }).messages;
    expect(turn?.parts).toEqual([
      { kind: { $case: "toolCall", value: { callId: "t1", name: "read", argumentsJson: '{"b":1,"a":[true,null]}' } } },
    ]);
  });

  test.each([
    [{ type: "tool_use", id: "", name: "n", input: {} }, "messages.0.content.0.id: expected a non-empty string."],
  ])("%j is refused", (block, message) => {
    expect(errorOf(() => read([block], "assistant")).message).toBe(message);
  });

  test.each([
    "redacted_thinking",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
  ])("%s is left out, even alone", (type) => {
    expect(read([{ type }, { type: "text", text: "a" }], "assistant")).toEqual([textPart("a")]);
    expect(read([{ type }], "assistant")).toEqual([]);
  });

  test("a compaction is the text of the items that it replaces", () => {
    expect(read([{ type: "compaction", content: "So far." }], "assistant")).toEqual([textPart("So far.")]);
    expect(read([{ type: "compaction", content: null }], "assistant")).toEqual([]);
  });
});

describe("kinds", () => {
  test("an unknown kind is left out beside others and refused alone", () => {
    expect(read([{ type: "hologram" }, { type: "text", text: "a" }])).toEqual([textPart("a")]);
    expect(errorOf(() => read([{ type: "hologram" }])).message).toBe(
      "messages.0.content.0.type: Input should be 'text', 'image', 'document', 'search_result', 'tool_result', 'compaction'",
    );
  });

  test.each([
    ["tool_use", "user", "assistant"],
    ["thinking", "user", "assistant"],
    ["tool_result", "assistant", "user"],
    ["image", "assistant", "user, tool_result, document"],
  ] as const)("%s is refused in a turn of the %s", (type, place, places) => {
    expect(errorOf(() => read([{ type }], place)).message).toBe(
      `messages.0.content.0.type: '${type}' blocks may not stand here, only in: ${places}.`,
    );
  });

  test.each([
    [7, "messages.0.content: Input should be a string or an array of content blocks"],
    [["x"], "messages.0.content.0: Input should be an object"],
    [[{ type: "constructor" }], "messages.0.content.0.type: Input should be 'text'"],
  ])("the content %j is refused", (content, message) => {
    expect(errorOf(() => read(content)).message).toContain(message);
  });
});

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const text = (value: string) => ({ type: "text", text: value });
const call = (id: string, name = "read") => ({ type: "tool_use", id, name, input: {} });
const result = (id: string, more: object = {}) => ({ type: "tool_result", tool_use_id: id, content: "ok", ...more });

function turns(messages: readonly unknown[], strictAlternation = false) {
  const settings = { ...context.settings, strictAlternation, systemRole: "merge" } as const;
  return request({ messages }, { ...context, settings }).messages;
}

function outline(messages: readonly Message[]): readonly string[] {
  const roles = new Map<Role, string>([
    [Role.USER, "user"],
    [Role.ASSISTANT, "assistant"],
    [Role.TOOL, "tool"],
    [Role.SYSTEM, "system"],
  ]);
  return messages.map(({ role, parts }) => `${roles.get(role)}: ${parts.map(outlinePart).join(" ")}`);
}

function outlinePart({ kind }: Part): string {
  switch (kind?.$case) {
    case "text":
      return kind.value.text;
    case "toolCall":
      return `call(${kind.value.callId})`;
    case "toolResult": {
      const { callId, name, content, isError } = kind.value;
      return `result(${callId} ${name}${isError ? " error" : ""}: ${content.map(outlinePart).join(" ")})`;
    }
    default:
      return kind?.$case ?? "nothing";
  }
}

describe("turns", () => {
  test.each([
    [
      "neighbours of one role are one turn",
      [user("a"), user([text("b"), text("c")]), assistant("d"), assistant("e"), user("f")],
      ["user: a b c", "assistant: d e", "user: f"],
    ],
    ["the first turn may be the assistant's", [assistant("a"), user("b")], ["assistant: a", "user: b"]],
    [
      "a prefill stays the last message",
      [user("a"), assistant("The answer is (")],
      ["user: a", "assistant: The answer is ("],
    ],
    ["an empty prefill is none", [user("a"), assistant("")], ["user: a"]],
    ["an empty turn in between stays", [user("a"), assistant([]), user("b")], ["user: a", "assistant: ", "user: b"]],
  ])("%s", (_, messages, expected) => {
    expect(outline(turns(messages))).toEqual(expected);
  });

  test.each([
    [["x"], "messages.0: Input should be an object"],
    [[{ role: "developer", content: "x" }], "messages.0.role: Input should be 'user', 'assistant'"],
    [[user(null)], "messages.0.content: Field required"],
  ])("%j is refused", (messages, message) => {
    expect(errorOf(() => turns(messages))).toEqual({ type: "invalid_request_error", message });
  });
});

describe("tool results", () => {
  test("become messages of their own with their call's name; other blocks follow as the user's message", () => {
    const messages = [
      user("a"),
      assistant([text("b"), call("t1"), call("t2", "grep")]),
      user([text("c"), result("t2"), result("t1", { is_error: true }), text("d")]),
    ];
    expect(outline(turns(messages))).toEqual([
      "user: a",
      "assistant: b call(t1) call(t2)",
      "tool: result(t2 grep: ok)",
      "tool: result(t1 read error: ok)",
      "user: c d",
    ]);
  });

  test("results may be spread over neighbouring messages", () => {
    const messages = [assistant([call("t1")]), assistant([call("t2")]), user([result("t1")]), user([result("t2")])];
    expect(outline(turns(messages)).slice(1)).toEqual(["tool: result(t1 read: ok)", "tool: result(t2 read: ok)"]);
  });

  test("a breakpoint on a result stays at its part", () => {
    const [, tool] = turns([assistant([call("t")]), user([result("t", { cache_control: { type: "ephemeral" } })])]);
    expect(tool?.parts[0]?.cacheBreakpoint).toEqual({ ttl: undefined });
  });

  const unexpected =
    "unexpected `tool_use_id` found in `tool_result` blocks. " +
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
  const unanswered =
    "`tool_use` ids were found without `tool_result` blocks immediately after. " +
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message.";

  test.each([
    ["a result without any call", [user([result("t1")])], `messages.0.content.0: ${unexpected}`],
    [
      "a result for a call of an earlier turn",
      [assistant([call("t1")]), user([result("t1")]), assistant("b"), user([text("c"), result("t1")])],
      `messages.3.content.1: ${unexpected}`,
    ],
    [
      "two results for one call",
      [assistant([call("t1")]), user([result("t1"), result("t1")])],
      "messages.1.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks for one id.",
    ],
    ["a call without its result", [user("a"), assistant([call("t1")]), user("b")], `messages.1: ${unanswered}`],
    ["a call at the end", [user("a"), assistant([call("t1")])], `messages.1: ${unanswered}`],
    [
      "two calls of one id",
      [assistant([call("t1"), call("t1")]), user([result("t1")])],
      "messages.0.content.1.id: `tool_use` ids must be unique.",
    ],
    [
      "content of a kind that is none",
      [assistant([call("t1")]), user([result("t1", { content: [{ type: "tool_use" }] })])],
      "messages.1.content.0.content.0.type: 'tool_use' blocks may not stand here, only in: assistant.",
    ],
  ])("%s is refused", (_, messages, message) => {
    expect(errorOf(() => turns(messages)).message).toBe(message);
  });
});

describe("accepted system messages", () => {
  const system = (content: unknown) => ({ role: "system", content });

  test("keep their position, so that a turn's prompt begins with that of the previous one", () => {
    const first = [user("a"), system([text("b"), text("c")])];
    expect(outline(turns(first))).toEqual(["user: a", "system: b c"]);
    const next = [...first, assistant([call("t")]), system("d"), user([result("t")]), user("e")];
    expect(outline(turns(next))).toEqual([
      "user: a",
      "system: b c",
      "assistant: call(t)",
      "system: d",
      "tool: result(t read: ok)",
      "user: e",
    ]);
  });

  test("do not count as turns where roles have to alternate, and are dropped when empty", () => {
    expect(outline(turns([user("a"), system("b"), system("c"), assistant("d"), system("")], true))).toEqual([
      "user: a",
      "system: b",
      "system: c",
      "assistant: d",
    ]);
  });

  test("hold text only", () => {
    expect(errorOf(() => turns([user("a"), system([{ type: "image" }])])).message).toContain(
      "messages.1.content.0.type",
    );
  });
});

const block = (value: string, more: object = {}) => ({ type: "text", text: value, ...more });

/** The message of the system text, if there is one. */
function systemOf(system: unknown) {
  const [first, second] = request({ system }).messages;
  return second && first;
}

describe("system", () => {
  test.each([[undefined], [null], [""], [[]], [[block("")]]])("%j is no system message", (system) => {
    expect(systemOf(system)).toBeUndefined();
  });

  test("the attribution block does not reach the prompt, so that its hash cannot change it", () => {
    const rest = [block("You are an agent."), block("Rules.")];
    const withHash = (hash: string) => systemOf([block(`x-anthropic-billing-header: cch=${hash};`), ...rest]);
    expect(withHash("a1")).toEqual(systemOf(rest));
    expect(systemOf("x-anthropic-billing-header: cch=a1;\nBe brief.")).toEqual(systemOf("Be brief."));
    expect(systemOf("x-anthropic-billing-header: cch=a1;")).toBeUndefined();
  });

  test("a cache breakpoint stays at its block", () => {
    const message = systemOf([block("a", { cache_control: { type: "ephemeral", ttl: "1h" } }), block("b")]);
    expect(message?.parts).toEqual([
      { ...textPart("a"), cacheBreakpoint: { ttl: { seconds: 3600, nanos: 0 } } },
      textPart("b"),
    ]);
  });

  test.each([
    [7, "system: Input should be a string or an array of text blocks"],
    [["x"], "system.0: Input should be an object"],
    [[block("x"), { type: "image" }], "system.1.type: Input should be 'text'"],
  ])("%j is refused", (system, message) => {
    expect(fault({ ...minimal, system })).toEqual({ type: "invalid_request_error", message });
  });
});

const { max_tokens: _, ...withoutLimit } = minimal;

describe("count_tokens", () => {
  test("needs no max_tokens, and accepts any", () => {
    const { model, request } = countTokens.prepare(withoutLimit, context);
    expect(model).toBe("svc-qwen");
    expect(request.messages).toHaveLength(1);
    for (const max_tokens of [null, 0, "x", 5])
      expect(countTokens.prepare({ ...withoutLimit, max_tokens }, context).request).toEqual(request);
  });
});
