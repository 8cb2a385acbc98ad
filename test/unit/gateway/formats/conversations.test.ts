import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { summaryText } from "../../../../gateway/formats/summary.ts";
import { ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { outline } from "../../../support/requests/outline.ts";
import { PNG, refusal, requestOf, sealer } from "./fixture.ts";

/* The conversation of a body becomes canonical messages, here in short form. */

type Rows = Readonly<Record<string, readonly [conversation: readonly object[], expected: string]>>;

const user = (content: unknown, more: object = {}) => ({ role: "user", content, ...more });
const assistant = (content: unknown, more: object = {}) => ({ role: "assistant", content, ...more });
const text = (words: string, more: object = {}) => ({ type: "text", text: words, ...more });
const breakpoint = (ttl?: string) => ({ prompt_cache_breakpoint: { mode: "explicit", ttl } });
const mark = (ttl?: string) => ({ cache_control: { type: "ephemeral", ttl } });

describe("chat", () => {
  const call = (id: string, name = "read", args = "{}") => ({
    id,
    type: "function",
    function: { name, arguments: args },
  });
  const calls = (...tool_calls: object[]) => ({ role: "assistant", tool_calls });
  const answer = (id: string, more: object = {}) => ({ role: "tool", tool_call_id: id, content: "done", ...more });
  const image = [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}`, detail: "high" } }];
  const turn = [calls(call("0", "a"), call("1", "b")), answer("1"), answer("0")];
  const turnText = 'assistant call(0 a {}) call(1 b {}) | tool result(1 b "done") | tool result(0 a "done")';

  const ROWS: Rows = {
    "system messages stay separate and in place": [
      ["system", "developer", "user", "system"].map((role) => ({ role, content: role })),
      'system "system" | system "developer" | user "user" | system "system"',
    ],
    "null is empty text": [[user(null)], 'user ""'],
    "absent content is empty text": [[{ role: "user" }], 'user ""'],
    "an empty text and an empty list are empty text": [[user(""), user([])], 'user "" | user ""'],
    "an empty part is empty text": [[user([text("")])], 'user ""'],
    "an assistant without text and calls is empty text": [
      [assistant(null, { tool_calls: [], refusal: null })],
      'assistant ""',
    ],
    "text parts keep their boundaries": [
      [user([text("a", { foo: 1 }), text("b", { cache_control: null })])],
      'user "a" "b"',
    ],
    "a name stays with the message": [
      [user("a", { name: "ada" }), user("b", { name: "" })],
      'user(ada) "a" | user "b"',
    ],
    "empty content beside calls is none": [
      [assistant("", { tool_calls: [call("c")] }), answer("c")],
      'assistant call(c read {}) | tool result(c read "done")',
    ],
    "no arguments are an empty object": [
      [calls(call("c", "any name", "")), answer("c")],
      'assistant call(c any name {}) | tool result(c any name "done")',
    ],
    "arguments of another type are unchanged": [
      [calls(call("c", "f", "[1]")), answer("c")],
      'assistant call(c f [1]) | tool result(c f "done")',
    ],
    "reasoning comes before text": [[assistant("a", { reasoning: "r" })], 'assistant thought "r" "a"'],
    "reasoning under both names is read once": [
      [assistant("a", { reasoning: "r", reasoning_content: "r" })],
      'assistant thought "r" "a"',
    ],
    "a refusal is the assistant's text": [[assistant(null, { refusal: "no" })], 'assistant "no"'],
    "a part of refusal is text": [[assistant([{ type: "refusal", refusal: "no" }])], 'assistant "no"'],
    "calls are answered in any order, ids may repeat later": [
      [...turn, user("a"), ...turn],
      `${turnText} | user "a" | ${turnText}`,
    ],
    "a second result of a call stays": [
      [calls(call("c")), answer("c"), answer("c")],
      'assistant call(c read {}) | tool result(c read "done") | tool result(c read "done")',
    ],
    "a mark stays at its part": [[user([text("a", mark("5m")), text("b")])], 'user "a"@300 "b"'],
    "a mark of the newer form stays at its part": [
      [user([text("a", breakpoint("12h")), text("b", breakpoint()), text("c", { ...mark("5m"), ...breakpoint() })])],
      'user "a"@43200 "b"@ "c"@300',
    ],
    "a mark at an empty part keeps the part": [[user([text("a"), text("", mark("5m"))])], 'user "a" ""@300'],
    "the mark of a message is at its last part": [[{ role: "system", content: "s", ...mark("1h") }], 'system "s"@3600'],
    "the mark of a result is at the result": [
      [calls(call("c")), answer("c", mark())],
      'assistant call(c read {}) | tool result(c read "done")@',
    ],
    "images of users and tools": [
      [user(image), calls(call("c")), answer("c", { content: image })],
      "user image/png 2 | assistant call(c read {}) | tool result(c read image/png 2)",
    ],
  };

  test.each(Object.entries(ROWS))("%s", (_, [list, expected]) => {
    expect(outline(requestOf(chat, { messages: list }))).toBe(expected);
  });
});

describe("messages", () => {
  const call = (id: string, name = "read", input: object = {}) => ({ type: "tool_use", id, name, input });
  const result = (id: string, more: object = {}) => ({ type: "tool_result", tool_use_id: id, content: "ok", ...more });
  const gave = (...content: object[]) => [assistant([call("t")]), user([result("t", { content })])];
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
  const byUrl = { type: "image", source: { type: "url", url: `data:image/png;base64,${PNG}` } };
  const thought = (signature: string) => ({ type: "thinking", thinking: "", signature });
  const document = (source: object, more: object = {}) => [user([{ type: "document", source, ...more }])];
  const plain = { type: "text", media_type: "text/plain", data: "Body." };
  const found = { type: "search_result", source: "wiki", title: "T", content: [text("Found.")] };
  const system = (content: unknown) => ({ role: "system", content });

  const ROWS: Rows = {
    "a string is one text block": [[user("hi")], 'user "hi"'],
    "citations are ignored": [[user([text("hi", { citations: null })])], 'user "hi"'],
    "empty text is left out": [[user(["", "a"].map((words) => text(words)))], 'user "a"'],
    "marks stay at their parts": [
      [user([text("a", mark("5m")), text("b", mark("9y")), text("c", mark())])],
      'user "a"@300 "b"@ "c"@',
    ],
    "base64 and data URLs are the same image": [[user([image, byUrl])], "user image/png 0 image/png 0"],
    "a text document is tagged text": [
      document(plain, { title: "T", context: "C" }),
      'user "<document>\\n<title>T</title>\\n<context>C</context>\\nBody.\\n</document>"',
    ],
    "a document keeps its images, and its mark at the end": [
      document({ type: "content", content: [text("a"), image, text("b")] }, mark()),
      'user "<document>\\na\\n" image/png 0 "b\\n</document>"@',
    ],
    "a document of one text": [document({ type: "content", content: "a" }), 'user "<document>\\na\\n</document>"'],
    "a search result names its source": [
      [user([found])],
      'user "<search_result>\\n<title>T</title>\\n<source>wiki</source>\\nFound.\\n</search_result>"',
    ],
    "a tool reference is a short text": [
      gave({ type: "tool_reference", tool_name: "grep" }),
      'assistant call(t read {}) | tool result(t read "Tool found: grep")',
    ],
    "withheld thinking is restored from its own signature": [
      [assistant([thought("sealed reasoning:Hm."), thought("foreign")]), user("b")],
      'assistant thought "Hm." | user "b"',
    ],
    "shown thinking needs no signature": [
      [assistant([{ type: "thinking", thinking: "Hm." }]), user("b")],
      'assistant thought "Hm." | user "b"',
    ],
    "a call keeps the order of its arguments": [
      [assistant([call("t", "f", { b: 1, a: [true, null] })]), user([result("t")])],
      'assistant call(t f {"b":1,"a":[true,null]}) | tool result(t f "ok")',
    ],
    "a compaction stands in place of what is before it, but for system text": [
      [
        user("a"),
        assistant([text("b"), { type: "compaction", content: "So far.", ...mark("1h") }, text("c")]),
        user("d"),
      ],
      `user ${JSON.stringify(summaryText("So far."))}@3600 | assistant "c" | user "d"`,
    ],
    "the last compaction counts": [
      [
        ...[system("s"), assistant([{ type: "compaction", content: "Old." }]), user("a")],
        ...[user([{ type: "compaction", content: "New." }]), system("t"), user("b")],
      ],
      `system "s" | user ${JSON.stringify(summaryText("New."))} | system "t" | user "b"`,
    ],
    "an empty compaction is nothing": [
      [assistant([{ type: "compaction", content: null }]), user("b")],
      'assistant | user "b"',
    ],
    "neighbours of one role are one turn": [
      [user("a"), user([text("b"), text("c")]), assistant("d"), assistant("e"), user("f")],
      'user "a" "b" "c" | assistant "d" "e" | user "f"',
    ],
    "an empty prefill is none": [[user("a"), assistant("")], 'user "a"'],
    "an empty turn in between stays": [[user("a"), assistant([]), user("b")], 'user "a" | assistant | user "b"'],
    "results become messages with the names of their calls": [
      [
        assistant([text("b"), call("t1"), call("t2", "grep")]),
        user([text("c"), result("t2"), result("t1", { is_error: true }), text("d")]),
      ],
      'assistant "b" call(t1 read {}) call(t2 grep {}) | tool result(t2 grep "ok") | tool failure(t1 read "ok") | user "c" "d"',
    ],
    "results may be spread over neighbours": [
      [assistant([call("t1")]), assistant([call("t2")]), user([result("t1")]), user([result("t2")])],
      'assistant call(t1 read {}) call(t2 read {}) | tool result(t1 read "ok") | tool result(t2 read "ok")',
    ],
    "a mark on a result stays there": [
      [assistant([call("t")]), user([result("t", mark())])],
      'assistant call(t read {}) | tool result(t read "ok")@',
    ],
    "accepted system messages keep their position": [
      [user("a"), system([text("b"), text("c")]), assistant([call("t")]), system("d"), user([result("t")]), user("e")],
      'user "a" | system "b" "c" | assistant call(t read {}) | system "d" | tool result(t read "ok") | user "e"',
    ],
  };

  test.each(Object.entries(ROWS))("%s", (_, [list, expected]) => {
    expect(outline(requestOf(messages, { messages: list }, { systemRole: "merge" }))).toBe(expected);
  });

  describe("tools that come later", () => {
    const reference = (tool_name: string) => ({ type: "tool_reference", tool_name });
    const named = (type: string, name: string, more: object = {}) => ({
      type,
      tool: { type: "tool_reference", name },
      ...more,
    });
    const defined = (definition: object) => ({ type: "tool_addition", tool: { type: "tool_definition", definition } });
    const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });
    const tools = [tool("search"), tool("grep", { defer_loading: true }), tool("look", { defer_loading: true })];
    const prepared = (list: readonly object[], more: object = {}) =>
      requestOf(messages, { messages: list, tools, ...more }, { systemRole: "merge" });
    const offered = (list: readonly object[], more: object = {}) => {
      const { tools: shown, toolChoice } = prepared(list, more);
      const names = shown.map(({ name, deferred }) => (deferred ? `(${name})` : name)).join(" ");
      return [names, toolChoice?.allowedNames.join(" ")];
    };

    test("a reference declares a deferred tool, and no other", () => {
      const list = gave(reference("grep"), reference("search"), reference("gone"));
      expect(outline(prepared(list))).toBe(
        "assistant call(t read {}) | tool result(t read " +
          '"Tool found: grep" declares(grep) "Tool found: search" "Tool found: gone")',
      );
      expect(offered(list)).toEqual(["search (grep)", ""]);
      expect(offered([user("a")])).toEqual(["search", ""]);
    });

    test("an addition declares a deferred tool or one of its own, and a removal withdraws what it names", () => {
      const list = [
        user("a"),
        system([named("tool_addition", "look", mark()), named("tool_addition", "gone"), defined(tool("own"))]),
        assistant("b"),
        user([text("c"), named("tool_removal", "look"), named("tool_removal", "search")]),
      ];
      expect(outline(prepared(list))).toBe(
        'user "a" | system "The tool look can be called from here on." declares(look)@ ' +
          '"The tool own can be called from here on." declares(own) | assistant "b" | user "c" ' +
          '"The tool look cannot be called any more." "The tool search cannot be called any more."',
      );
      expect(offered(list)).toEqual(["search (look) (own)", "own"]);
      const again = [...list, assistant("d"), user([named("tool_addition", "look"), named("tool_addition", "search")])];
      expect(offered(again)).toEqual(["search (look) (own)", ""]);
    });

    test("a tool can be demanded once it is loaded, and not before or behind its removal", () => {
      const demand = { tool_choice: { type: "tool", name: "grep" } };
      const loaded = gave(reference("grep"));
      expect(prepared(loaded, demand).toolChoice).toMatchObject({ mode: ToolChoiceMode.NAMED, name: "grep" });
      const removed = [...loaded, user([named("tool_removal", "grep"), named("tool_removal", "search")])];
      for (const list of [[user("a")], removed])
        expect(refusal(messages, { messages: list, tools, ...demand })).toMatch(/^tool_choice.name: this tool cannot/);
      expect(prepared(removed).toolChoice?.mode).toBe(ToolChoiceMode.NONE);
      expect(refusal(messages, { messages: removed, tools, tool_choice: { type: "any" } })).toMatch(/^tool_choice: /);
    });

    test.each<[object, string]>([
      [{ type: "tool_addition" }, "tool"],
      [{ type: "tool_addition", tool: { type: "mcp_toolset_reference", server_name: "s" } }, "tool.type"],
      [defined({ name: "own" }), "tool.definition.input_schema"],
      [defined(tool("grep", { description: "another" })), "tool.definition.name"],
      [named("tool_removal", ""), "tool.name"],
    ])("a change at fault is refused by its path: %j", (change, path) => {
      expect(refusal(messages, { messages: [user([change])], tools })).toContain(`messages.0.content.0.${path}: `);
    });
  });

  test("accepted system messages are no turns where roles have to alternate, and are dropped when empty", () => {
    const list = [user("a"), system("b"), system("c"), assistant("d"), system("")];
    const request = requestOf(messages, { messages: list }, { systemRole: "merge", strictAlternation: true });
    expect(outline(request)).toBe('user "a" | system "b" | system "c" | assistant "d"');
  });

  test.each([
    ...["redacted_thinking", "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "mcp_tool_use"],
    ...["code_execution_tool_result", "bash_code_execution_tool_result", "tool_search_tool_result", "mcp_tool_result"],
    ...["text_editor_code_execution_tool_result", "container_upload"],
  ])("%s is left out, even alone, but for the last message", (type) => {
    const list = [assistant([{ type }, text("a")]), user("b"), assistant([{ type }]), user([{ type }, text("c")])];
    expect(outline(requestOf(messages, { messages: list }))).toBe('assistant "a" | user "b" | assistant | user "c"');
    expect(refusal(messages, { messages: [user("a"), user([{ type }])] })).toMatch(/^messages\.1\.content\.0\.type: /);
  });

  test.each<[unknown, string]>([
    [undefined, ""],
    [null, ""],
    ["", ""],
    [[], ""],
    [[text("")], ""],
    [[text("a", mark("1h")), text("b")], 'system "a"@3600 "b" | '],
    // The attribution block holds a hash, which would change the prompt.
    ["x-anthropic-billing-header: cch=a1;\nBe brief.", 'system "Be brief." | '],
    ["x-anthropic-billing-header: cch=a1;", ""],
  ])("the system text %j", (system, expected) => {
    expect(outline(requestOf(messages, { system }))).toBe(`${expected}user "hi"`);
  });

  test("cache_control beside the messages marks their end", () => {
    const request = requestOf(messages, { system: "s", ...mark("1h") });
    expect(outline(request)).toBe('system "s" | user "hi"@3600');
    expect(request.cache?.ttl?.seconds).toBe(3_600);
  });
});

describe("responses", () => {
  const call = (id: string, more: object = {}) => ({
    type: "function_call",
    call_id: id,
    name: "read",
    arguments: '{ "a":1}',
    ...more,
  });
  const output = (id: string, value: unknown = "done") => ({
    type: "function_call_output",
    call_id: id,
    output: value,
  });
  const inputText = (words: string) => ({ type: "input_text", text: words });
  const image = { type: "input_image", image_url: `data:image/png;base64,${PNG}` };
  const summary = ["short", "er"].map((words) => ({ type: "summary_text", text: words }));
  const plain = [{ type: "reasoning_text", text: "plain" }];
  const sealed = sealer.seal("deep");
  const reasons = (fields: object) => [{ type: "reasoning", ...fields }, assistant("a")];

  const ROWS: Rows = {
    "system and developer items stay in place": [
      [user("a"), { role: "developer", content: "d" }, { type: "message", role: "system", content: "s" }],
      'user "a" | system "d" | system "s"',
    ],
    "a mark stays at its part, in an output too": [
      [
        user([{ ...inputText("a"), ...breakpoint("30m") }, inputText("b")]),
        call("c"),
        output("c", [{ ...inputText("d"), ...breakpoint() }]),
      ],
      'user "a"@1800 "b" | assistant call(c read { "a":1}) | tool result(c read "d"@)',
    ],
    "both words for text are accepted in every role": [
      [
        user([{ type: "output_text", text: "a", annotations: [] }], { passed_through: {} }),
        assistant([inputText("b"), { type: "refusal", refusal: "c" }], { phase: "final_answer" }),
      ],
      'user "a" | assistant "b" "c"',
    ],
    "images in outputs": [
      [call("c"), output("c", [inputText("t"), image])],
      'assistant call(c read { "a":1}) | tool result(c read "t" image/png 0)',
    ],
    "neighbouring items of the assistant are one turn": [
      [
        { type: "reasoning", summary },
        assistant("I look"),
        call("c"),
        call("d", { arguments: "" }),
        output("c"),
        output("d"),
        assistant("done"),
      ],
      'assistant thought "short\\n\\ner" "I look" call(c read { "a":1}) call(d read {}) | tool result(c read "done") | tool result(d read "done") | assistant "done"',
    ],
    "a call in a namespace has the model's name": [
      [call("c", { id: "fc_1", status: "completed", namespace: "fs" }), output("c")],
      'assistant call(c fs__read { "a":1}) | tool result(c fs__read "done")',
    ],
    "the calls of custom tools are calls with one string": [
      [
        call("a"),
        { type: "custom_tool_call", id: "ctc_1", call_id: "c", namespace: "g", name: "exec", input: 'a\n"b"' },
        output("a"),
        { type: "custom_tool_call_output", call_id: "c", output: [inputText("done")] },
      ],
      'assistant call(a read { "a":1}) call(c g__exec {"input": "a\\n\\"b\\""}) | tool result(a read "done") | tool result(c g__exec "done")',
    ],
    "arguments that are not JSON are unchanged": [
      [call("c", { arguments: "{oops" }), output("c")],
      'assistant call(c read {oops) | tool result(c read "done")',
    ],
    "sealed reasoning comes first": [
      reasons({ summary, content: plain, encrypted_content: sealed }),
      'assistant thought "deep" "a"',
    ],
    "its text comes before its summary": [
      reasons({ summary, content: plain, encrypted_content: "foreign" }),
      'assistant thought "plain" "a"',
    ],
    "its summary comes last": [reasons({ summary, content: null }), 'assistant thought "short\\n\\ner" "a"'],
    "reasoning of other forms is left out": [
      reasons({ content: [{ type: "other", text: "x" }, 3], summary: "odd" }),
      'assistant "a"',
    ],
    "reasoning without content is left out": [reasons({ summary: [], encrypted_content: "foreign" }), 'assistant "a"'],
    "a compaction is one message of the user": [
      [{ type: "compaction", encrypted_content: sealer.seal("Half done.", "summary") }, user("a")],
      'user "What came before was summarised to make room. The summary:\\n\\nHalf done.\\n\\nGo on from there." | user "a"',
    ],
  };

  test.each(Object.entries(ROWS))("%s", (_, [input, expected]) => {
    expect(outline(requestOf(responses, { input }))).toBe(expected);
  });

  test("instructions are the first system text", () => {
    expect(outline(requestOf(responses, { instructions: "i" }))).toBe('system "i" | user "hi"');
  });

  test("a message may hold very many parts", () => {
    const content = Array.from({ length: 200_000 }, () => inputText(""));
    expect(requestOf(responses, { input: [assistant(content)] }).messages[0]?.parts).toHaveLength(200_000);
  });
});
