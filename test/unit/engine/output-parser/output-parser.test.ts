import { describe, expect, test } from "vitest";
import { markersOf } from "./families.ts";
import { type Block, foldBlocks, logprob, type ParseOptions, parsePieces, parserOf, splitsOf } from "./parse-output.ts";

type Sample = {
  name: string;
  output: string;
  options?: ParseOptions;
  /** kind, text, and whether it is whole (default: yes). */
  blocks: [kind: string, text: string, complete?: boolean][];
  matchedStop?: string;
};

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const THINKING: ParseOptions = { startsInReasoning: true };
const CUT: ParseOptions = { end: "cut" };
const BIG = "x".repeat(70_000);

const SAMPLES: Sample[] = [
  { name: "plain text", output: "Hello, world.\n", blocks: [["text", "Hello, world.\n"]] },
  { name: "nothing at all", output: "", blocks: [] },
  { name: "only white space is all there is", output: " \n", blocks: [["text", " \n"]] },
  { name: "leading white space stays", output: "  indented", blocks: [["text", "  indented"]] },
  { name: "characters outside the basic plane", output: "a😀b<t😀", blocks: [["text", "a😀b<t😀"]] },
  {
    name: "reasoning that the prompt opened",
    output: "First this.\nThen that.\n</think>\n\nThe answer.",
    options: THINKING,
    blocks: [
      ["reasoning", "First this.\nThen that."],
      ["text", "The answer."],
    ],
  },
  {
    name: "reasoning that the model opens",
    output: "<think>\nHm.\n</think>\n\nYes.",
    blocks: [
      ["reasoning", "Hm."],
      ["text", "Yes."],
    ],
  },
  {
    name: "more newlines than the template writes belong to the texts",
    output: "<think>\n\nHm.\n\n</think>\n\n\nYes.",
    blocks: [
      ["reasoning", "\nHm.\n"],
      ["text", "\nYes."],
    ],
  },
  { name: "empty reasoning gives no block", output: "<think>\n\n</think>\n\nYes.", blocks: [["text", "Yes."]] },
  {
    name: "reasoning without newlines",
    output: "<think>a</think>b",
    blocks: [
      ["reasoning", "a"],
      ["text", "b"],
    ],
  },
  {
    name: "a reasoning mark inside a text is text",
    output: "The tag <think> x",
    blocks: [["text", "The tag <think> x"]],
  },
  { name: "a stray closing mark is text", output: "a</think>b", blocks: [["text", "a</think>b"]] },
  { name: "reasoning that never ends", output: "Hm.\n", options: THINKING, blocks: [["reasoning", "Hm.\n", false]] },
  {
    name: "reasoning cut inside its closing mark",
    output: "Hm.\n</thi",
    options: { ...THINKING, ...CUT },
    blocks: [["reasoning", "Hm.\n</thi", false]],
  },
  {
    name: "a cut right behind the reasoning",
    output: "Hm.\n</think>\n",
    options: { ...THINKING, ...CUT },
    blocks: [["reasoning", "Hm."]],
  },
  { name: "text cut", output: "Half a sent", options: CUT, blocks: [["text", "Half a sent", false]] },
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
    name: "only the template's newline before a call is taken off",
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
    name: "text behind a call",
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
    name: "other keys are passed over",
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
    name: "long arguments behind the name are no burden",
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
    name: "without markers all is text",
    output: `<think>\na\n</think>\n\n${call("run", "{}")}`,
    options: { markers: {}, startsInReasoning: true },
    blocks: [["text", `<think>\na\n</think>\n\n${call("run", "{}")}`]],
  },
  {
    name: "nothing is taken after the last wanted call",
    output: `${call("run", "{}")}\n${call("search", "{}")} and text`,
    options: { maxToolCalls: 1 },
    blocks: [["run", "{}"]],
  },
  {
    name: "a stop string",
    output: "one two three",
    options: { stop: ["two"] },
    blocks: [["text", "one "]],
    matchedStop: "two",
  },
  { name: "a stop string at once", output: "END", options: { stop: ["END"] }, blocks: [], matchedStop: "END" },
  {
    name: "the stop string that is whole first",
    output: "xabcd",
    options: { stop: ["abcd", "bc"] },
    blocks: [["text", "xa"]],
    matchedStop: "bc",
  },
  {
    name: "the longer of two that end together",
    output: "xabc",
    options: { stop: ["bc", "abc"] },
    blocks: [["text", "x"]],
    matchedStop: "abc",
  },
  {
    name: "a stop string that never comes whole",
    output: "one EN",
    options: { stop: ["END"] },
    blocks: [["text", "one EN"]],
  },
  {
    name: "a stop string after a false start",
    output: "aaab",
    options: { stop: ["aab"] },
    blocks: [["text", "a"]],
    matchedStop: "aab",
  },
  {
    name: "a stop string of newlines",
    output: "a\n\nb",
    options: { stop: ["\n\n"] },
    blocks: [["text", "a"]],
    matchedStop: "\n\n",
  },
  {
    name: "such a one at the end",
    output: "a\n\n",
    options: { stop: ["\n\n"] },
    blocks: [["text", "a"]],
    matchedStop: "\n\n",
  },
  {
    name: "no stop string in reasoning",
    output: "stop it\n</think>\n\nNow stop it",
    options: { ...THINKING, stop: ["stop"] },
    blocks: [
      ["reasoning", "stop it"],
      ["text", "Now "],
    ],
    matchedStop: "stop",
  },
  {
    name: "no stop string in arguments or in the markup around them",
    output: `${call("run", '{"a": "stop"}')}\n${call("run", "{}")}`,
    options: { stop: ["stop", "\n", "tool_call"] },
    blocks: [
      ["run", '{"a": "stop"}'],
      ["run", "{}"],
    ],
  },
  {
    name: "no stop string across a call",
    output: `a\n${call("run", "{}")}\nb`,
    options: { stop: ["ab", "a\nb"] },
    blocks: [
      ["text", "a"],
      ["run", "{}"],
      ["text", "b"],
    ],
  },
  {
    name: "a stop string in a call that is text",
    output: `Look: ${call("rm", '{"a": 1}')}`,
    options: { stop: ['"a"', ": <tool"] },
    blocks: [["text", "Look"]],
    matchedStop: ": <tool",
  },
];

const short = (value: unknown) =>
  JSON.stringify(value, (_, entry) =>
    typeof entry === "string" && entry.length > 999
      ? `${entry.slice(0, 40)}… ${entry.length} ${entry.slice(-40)}`
      : entry,
  );
const label = (block: Block) => [block.kind === "call" ? block.name : block.kind, block.text, block.complete];

describe("OutputParser", () => {
  test.each(SAMPLES)("reads $name, however the text is split", ({ output, options, blocks, matchedStop }) => {
    const wanted = blocks.map(([kind, text, complete = true]) => [kind, text, complete]);
    const splits = output.length > 10_000 ? [[output], output.match(/[\s\S]{1,999}/g) ?? []] : splitsOf(output, 200);
    for (const pieces of splits) {
      const parsed = parsePieces(pieces, options);
      expect(short(parsed.blocks.map(label)), short(pieces)).toBe(short(wanted));
      expect(parsed.matchedStop).toBe(matchedStop);
      const calls = blocks.filter(
        ([kind, , complete]) => kind !== "text" && kind !== "reasoning" && complete !== false,
      );
      expect(parsed.finishedToolCalls).toBe(calls.length);
    }
  });

  test("never lets through arguments that cannot become a JSON object", () => {
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

  test("gives text out as soon as it can be nothing else", () => {
    const parser = parserOf({ stop: ["STOP"] });
    const shown = (piece: string) =>
      parser.push(piece).map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : ""));
    expect(shown("Hi")).toEqual(["", "Hi"]);
    expect(shown(" <tool")).toEqual([" "]);
    expect(shown("_x S")).toEqual(["<tool_x "]);
    expect(shown("T")).toEqual([]);
    expect(shown("A\n")).toEqual(["STA"]);
    expect(shown("x")).toEqual(["\nx"]);
  });

  test("streams the name first and the arguments as they come", () => {
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

  test("says when it wants no more and gives nothing after that", () => {
    const parser = parserOf({ maxToolCalls: 1 });
    parser.push(call("run", "{}").slice(0, -14));
    expect(parser.wantsNoMore).toBe(true);
    expect(parser.push("more")).toEqual([]);
    expect(parser.end("stop")).toEqual([]);
  });

  test("gives nothing after a stop string", () => {
    const parser = parserOf({ stop: ["."] });
    expect(foldBlocks(parser.push("a.b"))).toMatchObject([{ text: "a", complete: true }]);
    expect(parser.push("c")).toEqual([]);
    expect(parser.end("cut")).toEqual([]);
  });

  test("knows whether it is in the reasoning", () => {
    const parser = parserOf(THINKING);
    expect(parser.inReasoning).toBe(true);
    parser.push("a\n</think>");
    expect(parser.inReasoning).toBe(false);
  });

  test("gives each call its own id", () => {
    const { blocks } = parsePieces([call("run", "{}"), call("run", "{}")]);
    expect(blocks.map((block) => block.id)).toEqual(["call-0", "call-1"]);
  });

  test("sends log probabilities with the text of their tokens, and none for markup", () => {
    const tokens = [
      "Hm",
      ".",
      "\n",
      "</think>",
      "\n\n",
      "Yes",
      " EN",
      "X",
      " it",
      " is",
      "\n",
      "<tool_call>",
      "\n",
      '{"name": "run"}',
    ];
    const parser = parserOf({ ...THINKING, stop: ["END"] });
    const events = tokens.flatMap((token) => [...parser.push(token, [logprob(token)])]);
    const blocks = foldBlocks([...events, ...parser.end("stop")]);
    expect(blocks.map((block) => [block.text, block.logprobs])).toEqual([
      ["Hm.", ["Hm", "."]],
      ["Yes ENX it is", ["Yes", " EN", "X", " it", " is"]],
      ["{}", []],
    ]);
  });

  test("sends the log probabilities of held text when it is let go before a call", () => {
    const parser = parserOf({ stop: ["isX"] });
    const tokens = ["it ", "is", '<tool_call>{"name": "run"}'];
    const events = tokens.flatMap((token) => [...parser.push(token, [logprob(token)])]);
    expect(foldBlocks([...events, ...parser.end("stop")])[0]?.logprobs).toEqual(["it ", "is"]);
  });
});

describe("a fault of our own in reading the output", () => {
  const broken = () => {
    throw new TypeError("a fault of our own");
  };
  const glm = { markers: markersOf("glm-4.7"), argumentTypes: broken };
  const glmCall = "<tool_call>search<arg_key>q</arg_key><arg_value>x</arg_value></tool_call>";

  test.each<[name: string, options: ParseOptions, output: string, text: string]>([
    ["where the types of arguments are found", glm, `Well. ${glmCall} Then.`, `Well. ${glmCall} Then.`],
    ["where a call gets its id", { newCallId: broken }, `${call("run", "{}")} Then.`, `${call("run", "{}")} Then.`],
    ["at the end of the output", { ...glm, end: "cut" }, glmCall.slice(0, -20), glmCall.slice(0, -20)],
  ])("costs a call and no text, whatever the pieces: %s", (_name, options, output, text) => {
    for (const pieces of splitsOf(output, 5, 7)) {
      const faults: unknown[] = [];
      const { blocks } = parsePieces(pieces, { ...options, onFault: (thrown) => faults.push(thrown) });
      expect(blocks.map((block) => block.text).join("")).toBe(text);
      expect(blocks.every(({ kind }) => kind === "text")).toBe(true);
      expect(faults).toEqual([expect.any(TypeError)]);
    }
  });
});
