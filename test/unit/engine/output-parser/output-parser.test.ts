import { describe, expect, test } from "vitest";
import { markersOf } from "./families.ts";
import { CUT, call, THINKING, testSamples } from "./output-samples.ts";
import { foldBlocks, logprob, type ParseOptions, parsePieces, parserOf, splitsOf } from "./parse-output.ts";

testSamples([
  { name: "plain text", output: "Hello, world.\n", blocks: [["text", "Hello, world.\n"]] },
  { name: "nothing at all", output: "", blocks: [] },
  { name: "white space only", output: " \n", blocks: [["text", " \n"]] },
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
    name: "a cut right after the reasoning",
    output: "Hm.\n</think>\n",
    options: { ...THINKING, ...CUT },
    blocks: [["reasoning", "Hm."]],
  },
  { name: "text cut", output: "Half a sent", options: CUT, blocks: [["text", "Half a sent", false]] },
  {
    name: "without markers all is text",
    output: `<think>\na\n</think>\n\n${call("run", "{}")}`,
    options: { markers: {}, startsInReasoning: true },
    blocks: [["text", `<think>\na\n</think>\n\n${call("run", "{}")}`]],
  },
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

test("reports whether it is in the reasoning", () => {
  const parser = parserOf(THINKING);
  expect(parser.inReasoning).toBe(true);
  parser.push("a\n</think>");
  expect(parser.inReasoning).toBe(false);
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
