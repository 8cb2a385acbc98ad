import { expect, test } from "vitest";
import { withCallsAsText } from "../../../../../engine/conversation/history/calls-as-text.ts";
import { ANY_ORDER, modelHistory, textOf } from "../../../../../engine/conversation/history/model-history.ts";
import { loadProfile, textCallsOf, withGenericCalls } from "../../../../../engine/profiles/profile.ts";
import { type Message, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import {
  assistant,
  call,
  part,
  result,
  system,
  text,
  tool,
  toolResult,
  user,
} from "../../../../support/engine/canonical.ts";

/* A template without tools: they stand in the system message, calls in the model's text, results in the user's. */

const FORM = textCallsOf(loadProfile("generic"));
const LOOK = tool("look", "Looks.", { type: "object" });
const INSTRUCTIONS = [
  "You can call these tools:",
  '{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type":"object"}}}',
  "To call a tool, write its name and its arguments as JSON, in exactly this form:",
  '<tool_call>\n{"name": "name of the tool", "arguments": {"name of an argument": "its value"}}\n</tool_call>',
  "The next message then has the result between <tool_response> and </tool_response>. Where no tool is needed, answer in plain text.",
].join("\n");

function shown(messages: readonly Message[], tools = [LOOK]): readonly (readonly [Role, string])[] {
  if (!FORM) throw new Error("The generic profile has no form.");
  const rules = { turns: ANY_ORDER, callIds: "any", images: false } as const;
  return modelHistory(withCallsAsText(messages, tools, FORM), rules).map(({ role, parts }) => [role, textOf(parts)]);
}

const failed = part({
  $case: "toolResult",
  value: { callId: "c2", name: "look", content: [text("no")], isError: true },
});

test.each([
  ["behind the system messages", [system("a"), system("b"), user("c")], [[Role.SYSTEM, `a\nb\n${INSTRUCTIONS}`]]],
  ["in a system message of their own", [user("c")], [[Role.SYSTEM, INSTRUCTIONS]]],
] as const)("tools stand %s", (_where, messages, head) => {
  expect(shown(messages)).toEqual([...head, [Role.USER, "c"]]);
});

test("calls and results are text, without tools in the request too", () => {
  const called = assistant(text("Let me."), call("look", '{"at":1}', "c1"), call("look", "", "c2"));
  const messages = [user("a"), called, { role: Role.TOOL, parts: [result("yes"), failed] }, user("b")];
  expect(shown(messages, [])).toEqual([
    [Role.USER, "a"],
    [
      Role.ASSISTANT,
      'Let me.\n<tool_call>\n{"name": "look", "arguments": {"at":1}}\n</tool_call>\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
    ],
    [
      Role.USER,
      "<tool_response>\nyes\n</tool_response>\n<tool_response>\n[The tool call failed.]\nno\n</tool_response>",
    ],
    [Role.USER, "b"],
  ]);
});

test("deferred tools are left out, and a schema that is no object is refused", () => {
  expect(shown([user("a")], [{ ...LOOK, deferred: true }])).toEqual([[Role.USER, "a"]]);
  expect(() => shown([toolResult("a")], [{ ...LOOK, parametersJsonSchema: "[]" }])).toThrow(
    expect.objectContaining({ reason: "INVALID_SCHEMA", facts: { field: "tools[0].parameters_json_schema" } }),
  );
});

test("a profile of one's own keeps its marks, others take those of the generic one", () => {
  const own = { ...loadProfile("hermes"), toolsAsText: true };
  expect(withGenericCalls(own)).toEqual(own);
  expect(withGenericCalls(loadProfile("mistral"))).toMatchObject({
    toolCall: FORM,
    toolsAsText: true,
    alternates: true,
  });
  expect(textCallsOf(loadProfile("hermes"))).toBeUndefined();
});
