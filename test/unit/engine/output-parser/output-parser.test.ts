import { describe, expect, test } from "vitest";
import { BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { markersOf } from "./families.ts";
import { foldBlocks, labels, logprob, type ParseOptions, parsePieces, parserOf, splitsOf } from "./parse-output.ts";

/** An output in the form of Hermes, and its blocks as `labels` lists them. */
type Sample = readonly [name: string, output: string, wanted: readonly string[], more?: ParseOptions, stop?: string];

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const THINKING: ParseOptions = { startsInReasoning: true };
const CUT: ParseOptions = { end: "cut" };
const BIG = "x".repeat(70_000);

const short = (value: unknown) =>
  JSON.stringify(value, (_, entry) =>
    typeof entry === "string" && entry.length > 999
      ? `${entry.slice(0, 40)}… ${entry.length} ${entry.slice(-40)}`
      : entry,
  );

function testSamples(samples: readonly Sample[]): void {
  const named = samples.map(([name, output, wanted, options, stop]) => ({ name, output, wanted, options, stop }));
  test.each(named)("parses $name, however the text is split", ({ output, wanted, options, stop }) => {
    const splits = output.length > 10_000 ? [[output], output.match(/[\s\S]{1,999}/g) ?? []] : splitsOf(output, 200);
    for (const pieces of splits) {
      const { blocks, matchedStop, endedCalls } = parsePieces(pieces, options);
      expect(short(labels(blocks)), short(pieces)).toBe(short(wanted));
      expect(matchedStop).toBe(stop);
      expect(endedCalls).toBe(blocks.filter(({ kind }) => kind === "call").length);
    }
  });
}

testSamples([
  ["nothing at all", "", []],
  ["white space only", " \n", ["text", " \n"]],
  ["characters outside the basic plane", "a😀b<t😀", ["text", "a😀b<t😀"]],
  [
    "more newlines than the template writes belong to the texts",
    "<think>\n\nHm.\n\n</think>\n\n\nYes.",
    ["reasoning", "\nHm.\n", "text", "\nYes."],
  ],
  ["a reasoning mark inside a text is text", "The tag <think> x", ["text", "The tag <think> x"]],
  ["reasoning cut inside its closing mark", "Hm.\n</thi", ["reasoning…", "Hm.\n</thi"], { ...THINKING, ...CUT }],
  [
    "without markers all is text",
    `<think>\na\n</think>\n\n${call("run", "{}")}`,
    ["text", `<think>\na\n</think>\n\n${call("run", "{}")}`],
    { markers: {}, startsInReasoning: true },
  ],
]);

test("sends text as soon as it cannot be markup", () => {
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

describe("a fault of the parser itself", () => {
  const broken = () => {
    throw new TypeError("a fault of our own");
  };
  const glm = { markers: markersOf("glm-4.7"), argumentTypes: broken };
  const glmCall = "<tool_call>search<arg_key>q</arg_key><arg_value>x</arg_value></tool_call>";

  test.each<[name: string, options: ParseOptions, output: string, text: string]>([
    ["where the types of arguments are found", glm, `Well. ${glmCall} Then.`, `Well. ${glmCall} Then.`],
    ["where a call gets its id", { newCallId: broken }, `${call("run", "{}")} Then.`, `${call("run", "{}")} Then.`],
    ["at the end of the output", { ...glm, end: "cut" }, glmCall.slice(0, -20), glmCall.slice(0, -20)],
  ])(
    "a fault of the parser itself costs a call and no text, whatever the pieces: %s",
    (_name, options, output, text) => {
      for (const pieces of splitsOf(output, 5, 7)) {
        const faults: unknown[] = [];
        const { blocks } = parsePieces(pieces, { ...options, onFault: (thrown) => faults.push(thrown) });
        expect(blocks.map((block) => block.text).join("")).toBe(text);
        expect(blocks.every(({ kind }) => kind === "text")).toBe(true);
        expect(faults).toEqual([expect.any(TypeError)]);
      }
    },
  );
});

testSamples([
  [
    "only the template's newline before a call is removed",
    `Look.\n\n${call("run", "{}")}`,
    ["text", "Look.\n", "run", "{}"],
  ],
  [
    "the exact text of the arguments is kept",
    '<tool_call>\n{"name": "run", "arguments":  {"a" :1.50,\n "b":[ ]}  }\n</tool_call>',
    ["run", '{"a" :1.50,\n "b":[ ]}'],
  ],
  [
    "arguments as a string that holds JSON",
    String.raw`<tool_call>{"name": "run", "arguments": " {\"a\": \"\\n\ud83d\ude00é\"} "}</tool_call>`,
    ["run", String.raw`{"a": "\n😀é"}`],
  ],
  [
    "half a surrogate pair in such a string stays an escape",
    String.raw`<tool_call>{"name": "run", "arguments": "{\"a\": \"\ud83d!\"}"}</tool_call>`,
    ["run", String.raw`{"a": "\ud83d!"}`],
  ],
  ["an escaped name", String.raw`<tool_call>{"name":"r\u0075n","arguments":{}}</tool_call>`, ["run", "{}"]],
  ["a cut before the name is known", 'Ok\n<tool_call>\n{"na', ["text…", 'Ok\n<tool_call>\n{"na'], CUT],
  ["arguments that are no object", call("run", "[1]"), ["text", call("run", "[1]")]],
  ["an opening mark before a call", `<tool_call>\n${call("run", "{}")}`, ["text", "<tool_call>", "run", "{}"]],
  [
    "broken arguments with the rest of their call, and the text behind it",
    `${call("run", '{"a": 2 days"}')}!`,
    ["run…", `{"a": 2 ${BREAK}days"}}\n`, "text", "!"],
  ],
  [
    "a whole call, a broken one, and a whole one",
    `${call("run", '{"a": 1}')}\n${call("run", '{"a": "say "hi""}')}\n${call("search", "{}")}`,
    ["run", '{"a": 1}', "run…", `{"a": "say "${BREAK}hi""}}\n`, "search", "{}"],
  ],
  [
    "a broken call without its end, and another call",
    `<tool_call>{"name": "run", "arguments": {"a": x, ${call("search", "{}")}`,
    ["run…", `{"a": ${BREAK}x, `, "search", "{}"],
  ],
  [
    "a call that the model ends in its arguments",
    'Ok\n<tool_call>\n{"name": "run", "arguments": {"a": "rm -rf /tmp/x',
    ["text", "Ok", "run…", `{"a": "rm -rf /tmp/x${BREAK}`],
  ],
  [
    "a call that a limit cuts in its arguments",
    'Ok\n<tool_call>\n{"name": "run", "arguments": {"a": "rm -rf /tmp/x',
    ["text", "Ok", "run…", '{"a": "rm -rf /tmp/x'],
    CUT,
  ],
  [
    "a broken call as the last one",
    `${call("run", '{"a": }')}${call("run", "{}")}`,
    ["run…", `{"a": ${BREAK}}}\n`],
    { maxToolCalls: 1 },
  ],
  [
    "control characters and backslashes that escape nothing in arguments are escaped",
    '<tool_call>{"name": "run", "arguments": {"a\t": "b\n\\d\\\nc\\u00e9\\\\"}}</tool_call>',
    ["run", '{"a\\t": "b\\n\\\\d\\\\\\nc\\u00e9\\\\"}'],
  ],
  [
    "arguments that wait too long for the name",
    `<tool_call>{"arguments": {"a": "${BIG}"}, "name": "run"}</tool_call>`,
    ["text", `<tool_call>{"arguments": {"a": "${BIG}"}, "name": "run"}</tool_call>`],
  ],
  ["long arguments after the name are streamed", call("run", `{"a": "${BIG}"}`), ["run", `{"a": "${BIG}"}`]],
]);

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
  expect(parser.endedCalls).toBe(1);
});

test("reports that it wants no more, and sends nothing after that", () => {
  const parser = parserOf({ maxToolCalls: 1 });
  parser.push(call("run", "{}").slice(0, -14));
  expect(parser.wantsNoMore).toBe(true);
  expect(parser.push("more")).toEqual([]);
  expect(parser.end("stop")).toEqual([]);
});

testSamples([
  ["the stop string that completes first", "xabcd", ["text", "xa"], { stop: ["abcd", "bc"] }, "bc"],
  ["the longer of two that end together", "xabc", ["text", "x"], { stop: ["bc", "abc"] }, "abc"],
  ["a stop string that never completes", "one EN", ["text", "one EN"], { stop: ["END"] }],
  ["a stop string after a false start", "aaab", ["text", "a"], { stop: ["aab"] }, "aab"],
  ["a stop string of newlines", "a\n\nb", ["text", "a"], { stop: ["\n\n"] }, "\n\n"],
  [
    "no stop string in reasoning",
    "stop it\n</think>\n\nNow stop it",
    ["reasoning", "stop it", "text", "Now "],
    { ...THINKING, stop: ["stop"] },
    "stop",
  ],
  [
    "no stop string in arguments or in the markup around them",
    `${call("run", '{"a": "stop"}')}\n${call("run", "{}")}`,
    ["run", '{"a": "stop"}', "run", "{}"],
    { stop: ["stop", "\n", "tool_call"] },
  ],
  [
    "no stop string across a call",
    `a\n${call("run", "{}")}\nb`,
    ["text", "a", "run", "{}", "text", "b"],
    { stop: ["ab", "a\nb"] },
  ],
  [
    "a stop string in a call that is text",
    `Look: ${call("rm", '{"a": 1}')}`,
    ["text", "Look"],
    { stop: ['"a"', ": <tool"] },
    ": <tool",
  ],
]);

test("sends the log probabilities of held text when a call releases it", () => {
  const parser = parserOf({ stop: ["isX"] });
  const tokens = ["it ", "is", '<tool_call>{"name": "run"}'];
  const events = tokens.flatMap((token) => [...parser.push(token, [logprob(token)])]);
  expect(foldBlocks([...events, ...parser.end("stop")])[0]?.logprobs).toEqual(["it ", "is"]);
});
