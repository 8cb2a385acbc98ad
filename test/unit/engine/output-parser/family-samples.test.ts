import { describe, expect, test } from "vitest";
import { BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { sizeOf } from "../../../support/size.ts";
import { optionsOf } from "./families.ts";
import { expectEqual, foldBlocks, labels, type ParseOptions, parsePieces, parserOf, splitsOf } from "./parse-output.ts";

/** The outputs of models by profile; `wanted` alternates kinds, or names of calls, and texts. */
type Sample = readonly [what: string, output: string, wanted: readonly string[], more?: ParseOptions];

const BROKEN_CALL = '<\u2060tool_call>\n{"name": "run", "arguments": {}}\n<\u2060/tool_call>';
const BIG = "x".repeat(70_000);
const LIST = `[${'"item", '.repeat(12_000)}"end"]`;

const m3Element = (key: string, inside: string) => `]<]minimax[>[<${key}>${inside}]<]minimax[>[</${key}>`;
const m3 = (inside: string) =>
  `]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="search">${inside}]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>`;

const SAMPLES: Readonly<Record<string, readonly Sample[]>> = {
  "glm-4.7": [
    [
      "a call in JSON is not one of this family",
      '<tool_call>{"name": "search"}</tool_call>',
      ["text", '<tool_call>{"name": "search"}</tool_call>'],
    ],
    [
      "a key without a value is text",
      "<tool_call>search<arg_key>q</arg_key></tool_call>",
      ["text", "<tool_call>search<arg_key>q</arg_key></tool_call>"],
    ],
  ],
  "qwen3-coder": [
    [
      "text between parameters ends the call",
      "<tool_call><function=search><parameter=q>a</parameter><parameter=n>1</parameter>oops",
      ["search…", `{"q": "a", "n": "1</parameter>oops${BREAK}`],
    ],
    [
      "a long value of unknown type that is not JSON is sent as a string",
      `<tool_call><function=run><parameter=a>${BIG}</parameter></function></tool_call>`,
      ["run", `{"a": "${BIG}"}`],
    ],
    [
      "a long list is sent as a list",
      `<tool_call><function=search><parameter=tags>${LIST}</parameter></function></tool_call>`,
      ["search", `{"tags": ${LIST}}`],
    ],
    [
      "a long list that breaks off ends the call",
      `<tool_call><function=search><parameter=tags>${LIST.slice(0, -6)}@</parameter></function></tool_call>`,
      ["search…", `{"tags": ${LIST.slice(0, -6)}${BREAK}@</parameter>`],
    ],
    [
      "a call without any end, and another group after it",
      "<tool_call>\n<function=search>\n<parameter=q>\na\n</parameter>\n<tool_call>\n<function=search>\n<parameter=q>\nb\n</parameter>\n</function>\n</tool_call>",
      ["search", '{"q": "a"}', "search", '{"q": "b"}'],
    ],
  ],
  "kimi-k2": [
    [
      "the marks of a section with one letter missing",
      "Ok.<|tool_call_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_section_end|>Done.",
      ["text", "Ok.", "run", "{}", "text", "Done."],
    ],
  ],
  generic: [
    [
      "marks as they stand in texts of callers, and plain ones",
      `${BROKEN_CALL}\n<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>`,
      ["run", "{}", "run", "{}"],
      { areGeneric: true },
    ],
    ["one mark of each spelling", BROKEN_CALL.replace("\u2060", ""), ["run", "{}"], { areGeneric: true }],
  ],
  hermes: [
    ["marks as they stand in texts of callers, which are no marks", BROKEN_CALL, ["text", BROKEN_CALL]],
    [
      "markup that only an engine reads",
      "<call>run",
      ["text", "<call>run"],
      { markers: { toolCall: { form: "engine-only", open: "<call>" } } },
    ],
    [
      "a value in quotation marks that is too long to be held",
      `<tool_call>\n{"name": "search", "arguments": {"n": "${BIG}", "deep": "true"}}\n</tool_call>`,
      ["search", `{"n": "${BIG}", "deep": true}`],
    ],
  ],
  "llama-3": [
    [
      "an object after text is no call",
      'So: {"name": "run", "parameters": {}}',
      ["text", 'So: {"name": "run", "parameters": {}}'],
    ],
    [
      "quotation marks around values of arguments before the name, in a string",
      '{"parameters": "{\\"n\\": \\"1\\"}", "name": "search"}',
      ["search", '{"n": 1}'],
    ],
  ],
  "mistral-args": [
    [
      "a name that never ends",
      `[TOOL_CALLS]${"run ".repeat(100)}[ARGS]{}`,
      ["text", `[TOOL_CALLS]${"run ".repeat(100)}[ARGS]{}`],
    ],
    [
      "a value in quotation marks where the arguments are truncated",
      '[TOOL_CALLS]search[ARGS]{"n": "1\\uzz"}',
      ["search…", `{"n": "1\\u${BREAK}zz"}`],
    ],
  ],
  "minimax-m3": [
    [
      "a closing tag of another element",
      m3(m3Element("free", "]<]minimax[>[<a>1]<]minimax[>[</b>")),
      ["search…", `{"free": ${BREAK}]<]minimax[>[</b>]<]minimax[>[</free>`],
    ],
    [
      "elements without the end of their call, and another call after them",
      `]<]minimax[>[<invoke name="search">${m3Element("q", "a")}]<]minimax[>[<invoke name="search">${m3Element("n", "1")}]<]minimax[>[</invoke>`,
      ["search", '{"q": "a"}', "search", '{"n": 1}'],
    ],
  ],
  "kimi-k3": [
    [
      "an argument of an unknown type",
      '<|open|>tools<|sep|><|open|>call tool="search" index="1"<|sep|><|open|>argument key="n" type="integer"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
      ["search", '{"n": 3}'],
    ],
    [
      "a call with a head of the maximum length",
      `<|open|>call tool="run"${" ".repeat(64)}<|sep|><|close|>call<|sep|>`,
      ["run", "{}"],
    ],
  ],
  "minimax-m2": [
    [
      "a call without its end, and another after it",
      '<minimax:tool_call><invoke name="search"><parameter name="q">a</parameter><invoke name="search"><parameter name="q">b</parameter></invoke></minimax:tool_call>',
      ["search", '{"q": "a"}', "search", '{"q": "b"}'],
    ],
    [
      "no arguments and no end, and another call after",
      '<invoke name="run"><invoke name="search"><parameter name="q">b</parameter></invoke>',
      ["text", '<invoke name="run">', "search", '{"q": "b"}'],
    ],
    [
      "an unknown attribute after a key",
      '<invoke name="search"><parameter name="q" type="text">a</parameter></invoke>',
      ["search", '{"q": "a"}'],
    ],
  ],
};

const RANDOM_SPLITS = sizeOf({ quick: 3, exhaustive: 50 });

const short = (text: string) => (text.length > 500 ? `${text.slice(0, 99)}… ${text.length} ${text.slice(-99)}` : text);

describe("OutputParser reads", () => {
  const samples = Object.entries(SAMPLES).flatMap(([profile, rows]) =>
    rows.map(([what, output, wanted, more = {}]) => ({ what, profile, output, wanted, more })),
  );
  test.each(samples)("$what ($profile)", ({ profile, output, wanted, more }) => {
    const options = { ...optionsOf(profile), ...more };
    const splits =
      output.length > 10_000 ? [[output], output.match(/[\s\S]{1,999}/g) ?? []] : splitsOf(output, RANDOM_SPLITS);
    for (const pieces of splits) {
      const { blocks } = parsePieces(pieces, options);
      expectEqual(labels(blocks).map(short), wanted.map(short));
    }
  });

  test.each([
    ["kimi-k2", "<|tool_call_begin|>functions.run:7<|tool_call_argument_begin|>{}<|tool_call_end|>", "functions.run:7"],
    ["mistral-args", "[TOOL_CALLS]run[CALL_ID]a1b2c3d4e[ARGS]{}", "a1b2c3d4e"],
  ])("the ids that a model writes, once each (%s)", (profile, output, id) => {
    const { blocks } = parsePieces([output + output], optionsOf(profile));
    expect(blocks.map((block) => block.id)).toEqual([id, "call-0"]);
  });

  test.each([
    ["qwen3-coder", "<function=search><parameter=n>9007199254740993</parameter></function>"],
    ["qwen3-coder", "<function=search><parameter=n> 9007199254740993 </parameter></function>"],
    ["glm-4.5", "<tool_call>search<arg_key>n</arg_key><arg_value>9007199254740993</arg_value></tool_call>"],
    ["minimax-m2", '<invoke name="search"><parameter name="n">9007199254740993</parameter></invoke>'],
    ["deepseek-v4", '<｜DSML｜invoke name="search">{"n": 9007199254740993}</｜DSML｜invoke>'],
  ])("all digits of a number beyond double precision (%s)", (profile, output) => {
    for (const pieces of splitsOf(output, 5)) {
      expect(parsePieces(pieces, optionsOf(profile)).blocks.map(({ text }) => text)).toEqual([
        '{"n": 9007199254740993}',
      ]);
    }
  });

  test.each([
    ["parameters after it", '<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>', false],
    ["the mark of the group after it", "\n</｜DSML｜tool_calls>", true],
    ["nothing after it", "", true],
  ])("an object in place of parameters, with %s", (_, behind, isWhole) => {
    const output = `<｜DSML｜invoke name="search">{"q": "one"}${behind}`;
    for (const pieces of splitsOf(output, 20)) {
      const { blocks } = parsePieces(pieces, optionsOf("deepseek-v4"));
      expect(labels(blocks)).toEqual(
        isWhole ? ["search", '{"q": "one"}'] : ["search…", `{"q": "one"${BREAK}${behind}`],
      );
    }
  });

  test("an object in place of parameters as it arrives", () => {
    const begun = '<｜DSML｜invoke name="search">{"q": "on';
    const parser = parserOf(optionsOf("deepseek-v4"));
    const events = parser.push(begun);
    expect(foldBlocks([...events, ...parser.end("cut")]).map(({ text }) => text)).toEqual(['{"q": "on']);
  });

  test("a string as it arrives, and other values at their end", () => {
    const pieces = [
      "<function=search>",
      "<parameter=q>",
      "one ",
      "two",
      "</parameter>\n<parameter=n>",
      "1",
      "2",
      "</parameter></function>",
    ];
    const { blocks } = parsePieces(pieces, optionsOf("qwen3-coder"));
    expect(blocks.map(({ text }) => text)).toEqual(['{"q": "one two", "n": 12}']);
  });
});
