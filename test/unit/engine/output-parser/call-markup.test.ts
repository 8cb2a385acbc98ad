import { expect, test } from "vitest";
import { CUT, call, THINKING, testSamples } from "./output-samples.ts";
import { parsePieces, parserOf } from "./parse-output.ts";

const BIG = "x".repeat(70_000);

testSamples([
  { name: "a call alone", output: call("search", '{"q": "x"}'), blocks: [["search", '{"q": "x"}']] },
  {
    name: "text, then a call",
    output: `Let me look.\n${call("search", '{"q": "x"}')}`,
    blocks: [
      ["text", "Let me look."],
      ["search", '{"q": "x"}'],
    ],
  },
  {
    name: "only the template's newline before a call is removed",
    output: `Look.\n\n${call("run", "{}")}`,
    blocks: [
      ["text", "Look.\n"],
      ["run", "{}"],
    ],
  },
  {
    name: "reasoning, then a call",
    output: `Search it.\n</think>\n\n${call("search", "{}")}`,
    options: THINKING,
    blocks: [
      ["reasoning", "Search it."],
      ["search", "{}"],
    ],
  },
  {
    name: "several calls",
    output: `${call("search", '{"q": 1}')}\n${call("run", '{"a": [1, {"b": "}"}]}')}\n`,
    blocks: [
      ["search", '{"q": 1}'],
      ["run", '{"a": [1, {"b": "}"}]}'],
    ],
  },
  {
    name: "text after a call",
    output: `${call("run", "{}")}\nDone.`,
    blocks: [
      ["run", "{}"],
      ["text", "Done."],
    ],
  },
  {
    name: "white space beside calls is dropped",
    output: ` \n${call("run", "{}")}\n \n${call("run", "{}")}\n\n`,
    blocks: [
      ["run", "{}"],
      ["run", "{}"],
    ],
  },
  {
    name: "marks inside the arguments are arguments",
    output: call("run", '{"a": "</tool_call><tool_call>\\n<think>"}'),
    blocks: [["run", '{"a": "</tool_call><tool_call>\\n<think>"}']],
  },
  {
    name: "a call without white space",
    output: '<tool_call>{"name":"run","arguments":{"a":1}}</tool_call>',
    blocks: [["run", '{"a":1}']],
  },
  {
    name: "the exact text of the arguments is kept",
    output: '<tool_call>\n{"name": "run", "arguments":  {"a" :1.50,\n "b":[ ]}  }\n</tool_call>',
    blocks: [["run", '{"a" :1.50,\n "b":[ ]}']],
  },
  {
    name: "arguments before the name",
    output: '<tool_call>\n{"arguments": {"a": 1}, "name": "run"}\n</tool_call>',
    blocks: [["run", '{"a": 1}']],
  },
  {
    name: "other keys are ignored",
    output: '<tool_call>\n{"id": 7, "name": "run", "x": [1, "y"], "arguments": {}, "z": null}\n</tool_call>',
    blocks: [["run", "{}"]],
  },
  {
    name: "arguments as a string that holds JSON",
    output: String.raw`<tool_call>{"name": "run", "arguments": " {\"a\": \"\\n\ud83d\ude00é\"} "}</tool_call>`,
    blocks: [["run", String.raw`{"a": "\n😀é"}`]],
  },
  {
    name: "half a surrogate pair in such a string stays an escape",
    output: String.raw`<tool_call>{"name": "run", "arguments": "{\"a\": \"\ud83d!\"}"}</tool_call>`,
    blocks: [["run", String.raw`{"a": "\ud83d!"}`]],
  },
  { name: "no arguments", output: '<tool_call>\n{"name": "run"}\n</tool_call>', blocks: [["run", "{}"]] },
  { name: "null arguments", output: '<tool_call>{"name":"run","arguments":null}</tool_call>', blocks: [["run", "{}"]] },
  {
    name: "an escaped name",
    output: String.raw`<tool_call>{"name":"r\u0075n","arguments":{}}</tool_call>`,
    blocks: [["run", "{}"]],
  },
  {
    name: "a missing last brace",
    output: '<tool_call>\n{"name": "run", "arguments": {}\n</tool_call>\nOk',
    blocks: [
      ["run", "{}"],
      ["text", "Ok"],
    ],
  },
  {
    name: "a missing closing mark at the end",
    output: '<tool_call>\n{"name": "run", "arguments": {"a": 1}}',
    blocks: [["run", '{"a": 1}']],
  },
  {
    name: "a closing mark cut short",
    output: '<tool_call>\n{"name": "run", "arguments": {"a": 1}}\n</tool_ca',
    options: CUT,
    blocks: [["run", '{"a": 1}']],
  },
  {
    name: "a missing closing mark before the next call",
    output: `<tool_call>\n{"name": "run", "arguments": {}}\n${call("search", "{}")}`,
    blocks: [
      ["run", "{}"],
      ["search", "{}"],
    ],
  },
  {
    name: "a cut inside the arguments",
    output: '<tool_call>\n{"name": "run", "arguments": {"a": "b',
    options: CUT,
    blocks: [["run", '{"a": "b', false]],
  },
  {
    name: "an end inside the arguments",
    output: '<tool_call>\n{"name": "run", "arguments": {"a": "b',
    blocks: [["run", '{"a": "b', false]],
  },
  {
    name: "a cut before the name is known",
    output: 'Ok\n<tool_call>\n{"na',
    options: CUT,
    blocks: [["text", 'Ok\n<tool_call>\n{"na', false]],
  },
  { name: "an unknown tool", output: `A\n${call("rm", "{}")}\nB`, blocks: [["text", `A\n${call("rm", "{}")}\nB`]] },
  {
    name: "an unknown tool whose arguments hold the markup of a known one",
    output: call("rm", '{"a": "<tool_call>{\\"name\\": \\"run\\"}</tool_call>"}'),
    blocks: [["text", call("rm", '{"a": "<tool_call>{\\"name\\": \\"run\\"}</tool_call>"}')]],
  },
  {
    name: "a call behind one of an unknown tool",
    output: `${call("rm", "{}")}\n${call("run", "{}")}`,
    blocks: [
      ["text", call("rm", "{}")],
      ["run", "{}"],
    ],
  },
  {
    name: "markup that holds no JSON",
    output: "<tool_call>\nrun()\n</tool_call>",
    blocks: [["text", "<tool_call>\nrun()\n</tool_call>"]],
  },
  {
    name: "arguments that are no object",
    output: call("run", "[1]"),
    blocks: [["text", call("run", "[1]")]],
  },
  {
    name: "arguments that are a string without JSON",
    output: call("run", '"ls -l"'),
    blocks: [["text", call("run", '"ls -l"')]],
  },
  {
    name: "a call without name",
    output: '<tool_call>{"arguments": {}}</tool_call>',
    blocks: [["text", '<tool_call>{"arguments": {}}</tool_call>']],
  },
  {
    name: "an opening mark before a call",
    output: `<tool_call>\n${call("run", "{}")}`,
    blocks: [
      ["text", "<tool_call>"],
      ["run", "{}"],
    ],
  },
  {
    name: "arguments that turn out broken end their block",
    output: `${call("run", '{"a": 1,}')}!`,
    blocks: [
      ["run", '{"a": 1,', false],
      ["text", "}}\n</tool_call>!"],
    ],
  },
  {
    name: "control characters and backslashes that escape nothing in arguments are escaped",
    output: '<tool_call>{"name": "run", "arguments": {"a\t": "b\n\\d\\\nc\\u00e9\\\\"}}</tool_call>',
    blocks: [["run", '{"a\\t": "b\\n\\\\d\\\\\\nc\\u00e9\\\\"}']],
  },
  {
    name: "arguments that wait too long for the name",
    output: `<tool_call>{"arguments": {"a": "${BIG}"}, "name": "run"}</tool_call>`,
    blocks: [["text", `<tool_call>{"arguments": {"a": "${BIG}"}, "name": "run"}</tool_call>`]],
  },
  {
    name: "long arguments after the name are streamed",
    output: call("run", `{"a": "${BIG}"}`),
    blocks: [["run", `{"a": "${BIG}"}`]],
  },
  {
    name: "without tools the markup is text",
    output: call("run", "{}"),
    options: { toolNames: [] },
    blocks: [["text", call("run", "{}")]],
  },
  {
    name: "nothing is taken after the last wanted call",
    output: `${call("run", "{}")}\n${call("search", "{}")} and text`,
    options: { maxToolCalls: 1 },
    blocks: [["run", "{}"]],
  },
]);

test("never sends arguments that cannot become a JSON object", () => {
  const whole = '{"a": [1, -2.5e3, true, null, {"b": "\\u00e9\\n"}], "c": {}}';
  for (let at = 1; at < whole.length; at += 1) {
    const broken = `${whole.slice(0, at)}@${whole.slice(at)}`;
    const [first] = parsePieces([...call("run", broken)]).blocks;
    const text = first?.kind === "call" ? first.text : "";
    if (whole.charAt(at - 1) === "\\") {
      expect(JSON.parse(text)).toBeTypeOf("object");
      continue;
    }
    expect(broken.startsWith(text)).toBe(true);
    if (!text.includes("@")) expect(whole.startsWith(text)).toBe(true);
    else expect(() => JSON.parse(broken)).not.toThrow();
  }
});

test("streams the name first and the arguments as they arrive", () => {
  const parser = parserOf({});
  expect(parser.push('<tool_call>\n{"name": "run", "arguments": ')).toEqual([]);
  expect(parser.push("{")).toEqual([
    {
      kind: {
        $case: "blockStarted",
        value: { index: 0, block: { $case: "toolCall", value: { callId: "call-0", name: "run" } } },
      },
    },
    { kind: { $case: "blockDelta", value: { index: 0, text: "{", logprobs: [] } } },
  ]);
  expect(parser.push('"a": 1')).toEqual([
    { kind: { $case: "blockDelta", value: { index: 0, text: '"a": 1', logprobs: [] } } },
  ]);
  expect(parser.push("}}")).toEqual([
    { kind: { $case: "blockDelta", value: { index: 0, text: "}", logprobs: [] } } },
    { kind: { $case: "blockEnded", value: { index: 0, complete: true } } },
  ]);
  expect(parser.finishedToolCalls).toBe(1);
});

test("reports that it wants no more, and sends nothing after that", () => {
  const parser = parserOf({ maxToolCalls: 1 });
  parser.push(call("run", "{}").slice(0, -14));
  expect(parser.wantsNoMore).toBe(true);
  expect(parser.push("more")).toEqual([]);
  expect(parser.end("stop")).toEqual([]);
});

test("gives each call a unique id", () => {
  const { blocks } = parsePieces([call("run", "{}"), call("run", "{}")]);
  expect(blocks.map((block) => block.id)).toEqual(["call-0", "call-1"]);
});
