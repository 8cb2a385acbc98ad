import { describe, expect, test } from "vitest";
import { CompletionFold } from "../../../../gateway/formats/completion.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { framesOf } from "../../../support/checkers/stream-text.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../../support/events/events.ts";
import { valueAt } from "../../../support/http/value-at.ts";
import { outline } from "../../../support/requests/outline.ts";
import { head, prepare, refusal, requestOf } from "./fixture.ts";

/* Tools of responses that come later than the head of the prompt: by items, and by the caller's own search. */

const user = { role: "user", content: "hi" };
const tool = (name: string, more: object = {}) => ({ type: "function", name, ...more });
const group = (name: string, ...tools: object[]) => ({ type: "namespace", name, tools });
const deferred = (name: string) => tool(name, { defer_loading: true });
const search = { type: "tool_search", execution: "client", description: "Finds tools.", parameters: null };
const further = (...tools: object[]) => ({ type: "additional_tools", role: "developer", tools });
const asked = { type: "tool_search_call", call_id: "s", execution: "client", arguments: { query: "q" } };
const found = (...tools: object[]) => ({ type: "tool_search_output", call_id: "s", execution: "client", tools });
const call = { type: "function_call", call_id: "c", name: "read", arguments: "{}" };
const output = { type: "function_call_output", call_id: "c", output: "done" };

/** The tools, those behind the head of the prompt with `+`, and the conversation. */
function read(fields: object): readonly [string, string] {
  const request = requestOf(responses, fields);
  return [request.tools.map((each) => `${each.deferred ? "+" : ""}${each.name}`).join(" "), outline(request)];
}

const searched = 'user "hi" | assistant call(s tool_search {"query":"q"}) | tool';

test.each<[string, object, string, string]>([
  [
    "additional tools in front of all but system text are in the head",
    {
      tools: [tool("read")],
      input: [further(tool("a")), { role: "developer", content: "d" }, further(group("g", tool("b"))), user],
    },
    "read a g__b",
    'system "d" | user "hi"',
  ],
  [
    "later ones are declared where they stand",
    { instructions: "i", input: [user, further(tool("a"), group("g", { type: "custom", name: "b" })), user] },
    "+a +g__b",
    'system "i" | user "hi" | system declares(a g__b) | user "hi"',
  ],
  [
    "between a call and its output they are declared in the output",
    { input: [user, call, further(tool("a")), output] },
    "+a",
    'user "hi" | assistant call(c read {}) | tool result(c read "done" declares(a))',
  ],
  [
    "an item that repeats tools adds nothing",
    {
      tools: [tool("a")],
      input: [further(tool("a")), user, further(tool("a")), further(tool("b")), further(tool("b"))],
    },
    "a +b",
    'user "hi" | system declares(b)',
  ],
  [
    "the tools that a search found are declared in its output",
    {
      tools: [search, deferred("a"), deferred("b")],
      input: [user, asked, found(deferred("b"), group("g", deferred("c")))],
    },
    "tool_search +a +b +g__c",
    `${searched} result(s tool_search declares(b g__c))`,
  ],
  [
    "a search that found nothing says so",
    { tools: [search], input: [user, asked, found()] },
    "tool_search",
    `${searched} result(s tool_search "No tools were found.")`,
  ],
  [
    "a search that found known tools says so",
    { tools: [search, tool("a")], input: [user, { ...asked, arguments: '{"query":"q"}' }, found(tool("a"))] },
    "tool_search a",
    `${searched} result(s tool_search "These tools are there already.")`,
  ],
  [
    "without a search, deferred tools are like others, but for those that were found before",
    { tools: [deferred("a"), deferred("b")], input: [user, asked, found(deferred("b"))] },
    "a +b",
    `${searched} result(s tool_search declares(b))`,
  ],
])("%s", (_, fields, tools, conversation) => {
  expect(read(fields)).toEqual([tools, conversation]);
});

test("a tool of an item replaces the earlier one of its name, in its place", () => {
  const input = [user, asked, found(tool("a", { description: "new" }))];
  const { tools } = requestOf(responses, { tools: [search, tool("a", { description: "old" }), tool("b")], input });
  expect(tools.map(({ name, description }) => `${name} ${description}`)).toEqual([
    "tool_search Finds tools.",
    "a new",
    "b ",
  ]);
});

describe("a choice", () => {
  const tools = [search, deferred("a")];

  test("a choice may be of a tool that was found", () => {
    const fields = { tools, input: [user, asked, found(deferred("a"))], tool_choice: tool("a") };
    expect(requestOf(responses, fields).toolChoice).toMatchObject({ name: "a" });
  });

  test("a choice is refused of one that was not", () => {
    expect(refusal(responses, { tools, tool_choice: tool("a") })).toBe("invalid_value tool_choice");
  });

  test("a choice may be of a tool of an item", () => {
    const fields = {
      input: [further({ type: "custom", name: "a" }), user],
      tool_choice: { type: "custom", name: "a" },
    };
    expect(requestOf(responses, fields).toolChoice).toMatchObject({ name: "a" });
  });
});

test.each<[object, string]>([
  [{ input: [further(tool("a b"))] }, "invalid_value input[0].tools[0].name"],
  [{ input: [further(tool("a", { parameters: [] }))] }, "invalid_type input[0].tools[0].parameters"],
  [{ input: [further({ type: "web_search" })] }, "unsupported_value input[0].tools[0].type"],
  [{ input: [{ type: "additional_tools" }] }, "missing_required_parameter input[0].tools"],
  [{ tools: [tool("a__b")], input: [further(group("a", tool("b")))] }, "invalid_value input[0].tools[0].tools[0].name"],
  [
    { input: [user, further(...Array.from({ length: 513 }, (_, at) => tool(`f${at}`)))] },
    "array_above_max_length input[1].tools",
  ],
  [{ input: [user, asked] }, "invalid_value input[1].call_id"],
  [{ input: [user, found(tool("a"))] }, "invalid_value input[1].call_id"],
  [{ input: [{ ...asked, execution: "server" }] }, "unsupported_value input[0].type"],
  [{ input: [{ ...found(), call_id: null }] }, "unsupported_value input[0].type"],
  [{ tools: [{ ...search, execution: "server" }] }, "unsupported_value tools[0].type"],
  [{ tools: [search, tool("tool_search")] }, "invalid_value tools[1].name"],
])("%# is refused: %j", (fields, expected) => {
  expect(refusal(responses, fields)).toBe(expected);
});

test("tools that this service does not run are left out of items if so configured", () => {
  const input = [further({ type: "web_search" }, tool("a")), { ...asked, execution: "server" }, user];
  const request = requestOf(responses, { input }, { unsupportedTools: "skip" });
  expect([request.tools.map(({ name }) => name), outline(request)]).toEqual([["a"], 'user "hi"']);
});

describe("a call of the search", () => {
  const item = (status: string, value: unknown) => ({
    id: `tsc_${head.replyId}_0`,
    type: "tool_search_call",
    status,
    call_id: "call_s",
    execution: "client",
    arguments: value,
  });

  test.each<[string, boolean, string, unknown]>([
    ['{"query": "q"}', true, "completed", { query: "q" }],
    ["", true, "completed", {}],
    ["[", true, "completed", "["],
    ['{"que', false, "incomplete", '{"que'],
  ])("a call of the search with %j is one item without deltas", (text, complete, status, value) => {
    const events = [
      ...[started(), toolCallStart(0, "tool_search", "s"), delta(0, text.slice(0, 3)), delta(0, text.slice(3))],
      ...[blockEnd(0, complete), finished()],
    ];
    const { encoder, reply } = prepare(responses, { tools: [search] });
    const fold = new CompletionFold();
    for (const event of events) fold.next(event);
    expect(valueAt(reply(head, fold.result()), "output")).toEqual([item(status, value)]);
    const stream = encoder(head);
    const frames = framesOf(events.map((event) => stream.next(event)).join("")).map(({ data }) => data);
    expect(frames.slice(2, -1)).toMatchObject([
      { type: "response.output_item.added", item: item("in_progress", {}) },
      { type: "response.output_item.done", item: item(status, value) },
    ]);
  });
});

test("the reply repeats the search and deferred tools", () => {
  const tools = [search, { ...deferred("a"), description: null, parameters: {}, strict: false }];
  const stream = prepare(responses, { tools }).encoder(head);
  expect(valueAt(framesOf(stream.keepAlive())[0]?.data, "response", "tools")).toEqual(tools);
});
