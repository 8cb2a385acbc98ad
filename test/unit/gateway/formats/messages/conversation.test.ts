import { describe, expect, test } from "vitest";
import { conversation } from "../../../../../gateway/formats/messages/conversation.ts";
import { type Message, type Part, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { context, errorOf } from "./fixture.ts";

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const text = (value: string) => ({ type: "text", text: value });
const call = (id: string, name = "read") => ({ type: "tool_use", id, name, input: {} });
const result = (id: string, more: object = {}) => ({ type: "tool_result", tool_use_id: id, content: "ok", ...more });

function read(messages: readonly unknown[], strictAlternation = false) {
  const rules = {
    acceptsImages: true,
    sealer: context.sealer("svc-qwen"),
    strictAlternation,
    unreadable: "reject",
  } as const;
  return conversation(messages, { ...rules, systemRole: "merge" }).map(({ message }) => message);
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
    ["an alternating conversation", [user("a"), assistant("b"), user("c")], ["user: a", "assistant: b", "user: c"]],
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
    expect(outline(read(messages))).toEqual(expected);
  });

  test("strict alternation refuses the second of two neighbours", () => {
    expect(outline(read([user("a"), assistant("b"), user("c")], true))).toHaveLength(3);
    expect(errorOf(() => read([user("a"), user("b")], true)).message).toBe(
      "messages.1.role: roles must alternate between 'user' and 'assistant'.",
    );
  });

  test.each([
    [["x"], "messages.0: Input should be an object"],
    [[{ content: "x" }], "messages.0.role: Field required"],
    [[user("a"), { role: "tool", content: "x" }], "messages.1.role: Input should be 'user', 'assistant'"],
    [[{ role: "developer", content: "x" }], "messages.0.role: Input should be 'user', 'assistant'"],
    [[{ role: "user" }], "messages.0.content: Field required"],
    [[user(null)], "messages.0.content: Field required"],
  ])("%j is refused", (messages, message) => {
    expect(errorOf(() => read(messages))).toEqual({ type: "invalid_request_error", message });
  });
});

describe("tool results", () => {
  test("become messages of their own with their call's name; other blocks follow as the user's message", () => {
    const messages = [
      user("a"),
      assistant([text("b"), call("t1"), call("t2", "grep")]),
      user([text("c"), result("t2"), result("t1", { is_error: true }), text("d")]),
    ];
    expect(outline(read(messages))).toEqual([
      "user: a",
      "assistant: b call(t1) call(t2)",
      "tool: result(t2 grep: ok)",
      "tool: result(t1 read error: ok)",
      "user: c d",
    ]);
  });

  test("a turn of results only has no user message", () => {
    expect(outline(read([assistant([call("t1")]), user([result("t1")])]))).toEqual([
      "assistant: call(t1)",
      "tool: result(t1 read: ok)",
    ]);
  });

  test("results may be spread over neighbouring messages", () => {
    const messages = [assistant([call("t1")]), assistant([call("t2")]), user([result("t1")]), user([result("t2")])];
    expect(outline(read(messages)).slice(1)).toEqual(["tool: result(t1 read: ok)", "tool: result(t2 read: ok)"]);
  });

  test("content is a string, blocks, or nothing", () => {
    const blocks = [text("x"), { type: "search_result", content: [text("y")] }];
    const contents = ["a", blocks, undefined, null, ""];
    const parts = contents.map(
      (content) => outline(read([assistant([call("t")]), user([result("t", { content })])]))[1],
    );
    expect(parts).toEqual([
      "tool: result(t read: a)",
      "tool: result(t read: x <search_result>\ny\n</search_result>)",
      "tool: result(t read: )",
      "tool: result(t read: )",
      "tool: result(t read: )",
    ]);
  });

  test("a breakpoint on a result stays at its part", () => {
    const [, tool] = read([assistant([call("t")]), user([result("t", { cache_control: { type: "ephemeral" } })])]);
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
    [
      "one of two calls without its result",
      [user("a"), assistant([call("t1"), call("t2")]), user([result("t1")])],
      `messages.1: ${unanswered}`,
    ],
    ["a call at the end", [user("a"), assistant([call("t1")])], `messages.1: ${unanswered}`],
    [
      "two calls of one id",
      [assistant([call("t1"), call("t1")]), user([result("t1")])],
      "messages.0.content.1.id: `tool_use` ids must be unique.",
    ],
    ["no id", [user([{ type: "tool_result" }])], "messages.0.content.0.tool_use_id: Field required"],
    [
      "a flag that is none",
      [assistant([call("t1")]), user([result("t1", { is_error: "yes" })])],
      "messages.1.content.0.is_error: Input should be a boolean",
    ],
    [
      "content of a kind that is none",
      [assistant([call("t1")]), user([result("t1", { content: [{ type: "tool_use" }] })])],
      "messages.1.content.0.content.0.type: 'tool_use' blocks may not stand here, only in: assistant.",
    ],
  ])("%s is refused", (_, messages, message) => {
    expect(errorOf(() => read(messages)).message).toBe(message);
  });

  test("no refusal repeats an id", () => {
    const secret = "toolu_SECRET";
    const faults = [[user([result(secret)])], [assistant([call(secret)])], [assistant([call(secret), call(secret)])]];
    for (const messages of faults) expect(errorOf(() => read(messages)).message).not.toContain(secret);
  });
});

describe("accepted system messages", () => {
  const system = (content: unknown) => ({ role: "system", content });

  test("keep their position, so that a turn's prompt begins with that of the previous one", () => {
    const first = [user("a"), system([text("b"), text("c")])];
    expect(outline(read(first))).toEqual(["user: a", "system: b c"]);
    const next = [...first, assistant([call("t")]), system("d"), user([result("t")]), user("e")];
    expect(outline(read(next))).toEqual([
      "user: a",
      "system: b c",
      "assistant: call(t)",
      "system: d",
      "tool: result(t read: ok)",
      "user: e",
    ]);
  });

  test("do not count as turns where roles have to alternate, and are dropped when empty", () => {
    expect(outline(read([user("a"), system("b"), system("c"), assistant("d"), system("")], true))).toEqual([
      "user: a",
      "system: b",
      "system: c",
      "assistant: d",
    ]);
  });

  test("hold text only", () => {
    expect(errorOf(() => read([user("a"), system([{ type: "image" }])])).message).toContain(
      "messages.1.content.0.type",
    );
  });
});
