import { expect, test } from "vitest";
import { call, THINKING, testSamples } from "./output-samples.ts";
import { foldBlocks, logprob, parserOf } from "./parse-output.ts";

testSamples([
  {
    name: "a stop string",
    output: "one two three",
    options: { stop: ["two"] },
    blocks: [["text", "one "]],
    matchedStop: "two",
  },
  { name: "a stop string at once", output: "END", options: { stop: ["END"] }, blocks: [], matchedStop: "END" },
  {
    name: "the stop string that completes first",
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
    name: "a stop string that never completes",
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
]);

test("sends nothing after a stop string", () => {
  const parser = parserOf({ stop: ["."] });
  expect(foldBlocks(parser.push("a.b"))).toMatchObject([{ text: "a", complete: true }]);
  expect(parser.push("c")).toEqual([]);
  expect(parser.end("cut")).toEqual([]);
});

test("sends the log probabilities of held text when a call releases it", () => {
  const parser = parserOf({ stop: ["isX"] });
  const tokens = ["it ", "is", '<tool_call>{"name": "run"}'];
  const events = tokens.flatMap((token) => [...parser.push(token, [logprob(token)])]);
  expect(foldBlocks([...events, ...parser.end("stop")])[0]?.logprobs).toEqual(["it ", "is"]);
});
