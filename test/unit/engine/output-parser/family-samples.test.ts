import { describe, expect, test } from "vitest";
import { optionsOf } from "./families.ts";
import { foldBlocks, labels, type ParseOptions, parsePieces, parserOf, splitsOf } from "./parse-output.ts";

/** The outputs of models by profile; `wanted` alternates kinds, or names of calls, and texts. */
type Sample = readonly [what: string, output: string, wanted: readonly string[], more?: ParseOptions];

const BIG = "x".repeat(70_000);
const LIST = `[${'"item", '.repeat(12_000)}"end"]`;

const m3Element = (key: string, inside: string) => `]<]minimax[>[<${key}>${inside}]<]minimax[>[</${key}>`;
const m3 = (inside: string) =>
  `]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="search">${inside}]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>`;

const SAMPLES: Readonly<Record<string, readonly Sample[]>> = {
  "glm-4.5": [
    [
      "white space that is not the template's",
      "<tool_call> search <arg_key>q</arg_key> <arg_value>a</arg_value> </tool_call>",
      ["search", '{"q": "a"}'],
    ],
  ],
  "glm-4.7": [
    [
      "the exact text of a value, white space and all",
      "<tool_call>search<arg_key>q</arg_key><arg_value> a\n b\n</arg_value></tool_call>",
      ["search", '{"q": " a\\n b\\n"}'],
    ],
    [
      "a value that holds the tags of a call",
      "<tool_call>search<arg_key>q</arg_key><arg_value><tool_call></arg_value> x</tool_call></arg_value></tool_call>",
      ["search", '{"q": "<tool_call></arg_value> x</tool_call>"}'],
    ],
    [
      "a string that looks like a number stays a string",
      "<tool_call>search<arg_key>q</arg_key><arg_value>12</arg_value><arg_key>n</arg_key><arg_value>12</arg_value></tool_call>",
      ["search", '{"q": "12", "n": 12}'],
    ],
    [
      "a value that is not JSON of the type is a string",
      "<tool_call>search<arg_key>n</arg_key><arg_value>many</arg_value></tool_call>",
      ["search", '{"n": "many"}'],
    ],
    [
      "JSON of another type stays JSON",
      "<tool_call>search<arg_key>n</arg_key><arg_value>[1]</arg_value></tool_call>",
      ["search", '{"n": [1]}'],
    ],
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
    [
      "the mark of a call mentioned before one",
      "I use <tool_call> soon: <tool_call>search<arg_key>q</arg_key><arg_value>a</arg_value></tool_call>",
      ["text", "I use <tool_call> soon: ", "search", '{"q": "a"}'],
    ],
  ],
  "qwen3-coder": [
    [
      "one newline at each end of a value is the template's",
      "<tool_call>\n<function=search>\n<parameter=q>\n\n a\n\n</parameter>\n</function>\n</tool_call>",
      ["search", '{"q": "\\n a\\n"}'],
    ],
    [
      "a closing tag inside a value, where nothing of a call follows it",
      "<tool_call><function=search><parameter=q>see </parameter> here</parameter></function></tool_call>",
      ["search", '{"q": "see </parameter> here"}'],
    ],
    [
      "booleans and nothing as Python prints them",
      "<tool_call><function=search><parameter=deep>\nTrue\n</parameter><parameter=maybe>None</parameter><parameter=q>True</parameter></function></tool_call>",
      ["search", '{"deep": true, "maybe": null, "q": "True"}'],
    ],
    [
      "the text decides between several types",
      "<tool_call><function=search><parameter=maybe>5</parameter><parameter=maybe>null</parameter></function></tool_call>",
      ["search", '{"maybe": "5", "maybe": null}'],
    ],
    [
      "a parameter that no schema names is JSON where it can be",
      '<tool_call><function=run><parameter=a>{"b": [1.50]}</parameter><parameter=c>{oops</parameter></function></tool_call>',
      ["run", '{"a": {"b": [1.50]}, "c": "{oops"}'],
    ],
    [
      "the outer opening mark left out",
      "Now.\n<function=run>\n</function>\n</tool_call>\nOk",
      ["text", "Now.", "run", "{}", "text", "Ok"],
    ],
    [
      "the inner closing mark left out",
      "<tool_call><function=search><parameter=q>a</parameter></tool_call>",
      ["search", '{"q": "a"}'],
    ],
    ["the outer closing mark left out", "<tool_call><function=run></function>\nOk", ["run", "{}", "text", "Ok"]],
    [
      "text between parameters ends the call",
      "<tool_call><function=search><parameter=q>a</parameter><parameter=n>1</parameter>oops",
      ["search…", '{"q": "a", "n": "1</parameter>oops'],
    ],
    [
      "a truncated value is sent as far as it has come",
      "<tool_call><function=search><parameter=q>a</parameter><parameter=tags>[1, ",
      ["search…", '{"q": "a", "tags": [1, '],
      { end: "cut" },
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
      ["search…", `{"tags": ${LIST.slice(0, -6)}`, "text", "@</parameter></function></tool_call>"],
    ],
    [
      "a call without any end, and another group after it",
      "<tool_call>\n<function=search>\n<parameter=q>\na\n</parameter>\n<tool_call>\n<function=search>\n<parameter=q>\nb\n</parameter>\n</function>\n</tool_call>",
      ["search", '{"q": "a"}', "search", '{"q": "b"}'],
    ],
  ],
  "deepseek-v3.2": [
    [
      "types marked by the parameters",
      '<｜DSML｜function_calls>\n<｜DSML｜invoke name="run">\n<｜DSML｜parameter name="a" string="true">5</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">5</｜DSML｜parameter>\n<｜DSML｜parameter name="c">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
      ["run", '{"a": "5", "b": 5, "c": "x"}'],
    ],
    [
      "a number that is called a string where the schema allows none",
      '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search">\n<｜DSML｜parameter name="n" string="true">42</｜DSML｜parameter>\n<｜DSML｜parameter name="q" string="true">42</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
      ["search", '{"n": 42, "q": "42"}'],
    ],
  ],
  "kimi-k2": [
    [
      "white space between the marks of a section",
      "<|tool_calls_section_begin|>\n<|tool_call_begin|>\nfunctions.run:3 <|tool_call_argument_begin|>\n{}\n<|tool_call_end|>\n<|tool_calls_section_end|>",
      ["run", "{}"],
    ],
    [
      "a section without its marks, and a bare name",
      "<|tool_call_begin|>run<|tool_call_argument_begin|>{}<|tool_call_end|>",
      ["run", "{}"],
    ],
    [
      "the marks of a section with one letter missing",
      "Ok.<|tool_call_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_section_end|>Done.",
      ["text", "Ok.", "run", "{}", "text", "Done."],
    ],
  ],
  "kimi-k2-thinking": [
    [
      "reasoning that a call ends",
      "<think>So I call it.<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
      ["reasoning", "So I call it.", "run", "{}"],
    ],
  ],
  "qwen3.5": [
    [
      "reasoning that only mentions a call",
      "<think>\nI write <tool_call>.\n</think>\n\nYes.",
      ["reasoning", "I write <tool_call>.", "text", "Yes."],
    ],
    [
      "a call inside reasoning that was not closed",
      "<think>\nI look.\n<tool_call>\n<function=search>\n<parameter=q>\na\n</parameter>\n</function>\n</tool_call>",
      ["reasoning", "I look.", "search", '{"q": "a"}'],
    ],
  ],
  hermes: [
    [
      "parameters for arguments",
      '<tool_call>{"name": "search", "parameters": {"q": "x"}}</tool_call>',
      ["search", '{"q": "x"}'],
    ],
    [
      "arguments under an unknown key do not make a call without arguments",
      '<tool_call>{"name": "search", "params": {"q": "x"}}</tool_call>',
      ["text", '<tool_call>{"name": "search", "params": {"q": "x"}}</tool_call>'],
    ],
    [
      "markup that only an engine reads",
      "<call>run",
      ["text", "<call>run"],
      { markers: { toolCall: { form: "engine-only", open: "<call>" } } },
    ],
    [
      "quotation marks around values that may not, and that may, be strings",
      '<tool_call>\n{"name": "search", "arguments": {"n": "12", "deep": "true", "tags": "[\\"a\\"]", "q": "12", "maybe": "1", "free": "2"}}\n</tool_call>',
      ["search", '{"n": 12, "deep": true, "tags": ["a"], "q": "12", "maybe": "1", "free": "2"}'],
    ],
    [
      "quotation marks around text that is not JSON of the type",
      '<tool_call>\n{"name": "search", "arguments": {"n": "many", "deep": "yes\\n", "tags": "a", "\\u006e": "1"}}\n</tool_call>',
      ["search", '{"n": "many", "deep": "yes\\n", "tags": "a", "\\u006e": 1}'],
    ],
    [
      "a value in quotation marks that is too long to be held",
      `<tool_call>\n{"name": "search", "arguments": {"n": "${BIG}", "deep": "true"}}\n</tool_call>`,
      ["search", `{"n": "${BIG}", "deep": true}`],
    ],
  ],
  mistral: [
    [
      "parameters for arguments in a list",
      '[TOOL_CALLS][{"name": "search", "parameters": {"q": "x"}}]',
      ["search", '{"q": "x"}'],
    ],
    [
      "ids in a list, and white space around it",
      'Ok.[TOOL_CALLS] [{"name": "run", "arguments": {}, "id": "abc123def"} , {"name": "search", "arguments": {"q": "]"}}]',
      ["text", "Ok.", "run", "{}", "search", '{"q": "]"}'],
    ],
    ["a list that is not closed", '[TOOL_CALLS][{"name": "run", "arguments": {}}', ["run", "{}"]],
    [
      "a list cut inside a call",
      '[TOOL_CALLS][{"name": "run", "arguments": {}}, {"name": "search", "arguments": {"q": "a',
      ["run", "{}", "search…", '{"q": "a'],
      { end: "cut" },
    ],
  ],
  "deepseek-v3.1": [
    [
      "arguments that are not an object",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>[]<｜tool▁call▁end｜>",
      ["text", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>[]<｜tool▁call▁end｜>"],
    ],
    ["a section with nothing in it", "Well.<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>", ["text", "Well."]],
  ],
  "llama-3": [
    ["a mark at the start", '<|python_tag|>{"type": "function", "name": "run", "parameters": {}}', ["run", "{}"]],
    [
      "a mark after text",
      'Look: <|python_tag|>{"name": "run", "arguments": {"a": 1}}',
      ["text", "Look: ", "run", '{"a": 1}'],
    ],
    ["code for an interpreter", "<|python_tag|>print(1)", ["text", "<|python_tag|>print(1)"]],
    ["an answer in JSON", '{"name": "search engine", "size": 3}', ["text", '{"name": "search engine", "size": 3}']],
    [
      "an answer in JSON that begins like a call",
      '{"name": "search", "size": 3}',
      ["text", '{"name": "search", "size": 3}'],
    ],
    [
      "an object after text is no call",
      'So: {"name": "run", "parameters": {}}',
      ["text", 'So: {"name": "run", "parameters": {}}'],
    ],
    [
      "one call per line",
      '{"name": "run", "parameters": {}}\n{"name": "search", "parameters": {"q": "a"}}',
      ["run", "{}", "search", '{"q": "a"}'],
    ],
    ["a semicolon that no call follows", '{"name": "run", "parameters": {}}; or so', ["run", "{}", "text", "; or so"]],
    [
      "quotation marks around values of arguments before the name, in a string",
      '{"parameters": "{\\"n\\": \\"1\\"}", "name": "search"}',
      ["search", '{"n": 1}'],
    ],
  ],
  magistral: [
    [
      "reasoning between marks of its own",
      "[THINK]Hm.[/THINK]Yes.[TOOL_CALLS]run[ARGS]{}",
      ["reasoning", "Hm.", "text", "Yes.", "run", "{}"],
    ],
  ],
  "mistral-args": [
    ["no arguments between the marks", "[TOOL_CALLS]run[ARGS]", ["text", "[TOOL_CALLS]run[ARGS]"]],
    [
      "a name that never ends",
      `[TOOL_CALLS]${"run ".repeat(100)}[ARGS]{}`,
      ["text", `[TOOL_CALLS]${"run ".repeat(100)}[ARGS]{}`],
    ],
    [
      "the mark of a call twice, before a name",
      '[TOOL_CALLS][TOOL_CALLS]search[ARGS]{"q": "a"}',
      ["text", "[TOOL_CALLS]", "search", '{"q": "a"}'],
    ],
    [
      "a value in quotation marks where the arguments are truncated",
      '[TOOL_CALLS]search[ARGS]{"n": "1\\uzz"}',
      ["search…", '{"n": "1\\u', "text", 'zz"}'],
    ],
  ],
  "minimax-m3": [
    [
      "elements inside elements, by the schema and without one",
      m3(
        `${m3Element("tags", m3Element("x", "1") + m3Element("x", "b"))}${m3Element("free", `\n${m3Element("a", "1")}\n${m3Element("b", m3Element("item", "x"))}\n`)}`,
      ),
      ["search", '{"tags": ["1", "b"], "free": {"a": 1, "b": ["x"]}}'],
    ],
    [
      "elements of one name in an object are a list, and no elements an empty one",
      m3(
        `${m3Element("free", `${m3Element("t", "a")}${m3Element("u", "")}${m3Element("t", "b")}`)}${m3Element("tags", "")}`,
      ),
      ["search", '{"free": {"t": ["a", "b"], "u": ""}, "tags": []}'],
    ],
    [
      "a value that is JSON in the place of elements",
      m3(`${m3Element("tags", '["x"]')}${m3Element("free", '{"a": [1]}')}`),
      ["search", '{"tags": ["x"], "free": {"a": [1]}}'],
    ],
    [
      "a string that holds tags",
      m3(m3Element("q", `${m3Element("b", "x")} </q> y`)),
      ["search", `{"q": ${JSON.stringify(`${m3Element("b", "x")} </q> y`)}}`],
    ],
    [
      "text beside elements is no value",
      m3(m3Element("free", `text ${m3Element("a", "1")}`)),
      ["search", `{"free": ${JSON.stringify(`text ${m3Element("a", "1")}`)}}`],
    ],
    [
      "a closing tag of another element",
      m3(m3Element("free", "]<]minimax[>[<a>1]<]minimax[>[</b>")),
      [
        "search…",
        '{"free": ',
        "text",
        `]<]minimax[>[</b>]<]minimax[>[</free>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>`,
      ],
    ],
    [
      "an end of the call without that of the call's own",
      `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="search">${m3Element("q", "a")}]<]minimax[>[</tool_call>`,
      ["search", '{"q": "a"}'],
    ],
    [
      "elements without the end of their call, and another call after them",
      `]<]minimax[>[<invoke name="search">${m3Element("q", "a")}]<]minimax[>[<invoke name="search">${m3Element("n", "1")}]<]minimax[>[</invoke>`,
      ["search", '{"q": "a"}', "search", '{"n": 1}'],
    ],
  ],
  "kimi-k3": [
    [
      "the channels of an answer",
      "Hm.<|close|>think<|sep|><|open|>response<|sep|>Let me see.<|close|>response<|sep|><|open|>tools<|sep|>" +
        '<|open|>call tool="search" index="1"<|sep|><|open|>argument key="q" type="string"<|sep|>12<|close|>argument<|sep|>' +
        '<|open|>argument key="tags" type="array"<|sep|>["x"]<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>',
      ["reasoning", "Hm.", "text", "Let me see.", "search", '{"q": "12", "tags": ["x"]}'],
      { startsInReasoning: true },
    ],
    [
      "an answer without a call, whose channel the prompt has opened",
      "Yes.<|close|>response<|sep|><|close|>message<|sep|>",
      ["text", "Yes."],
    ],
    [
      "a key with escapes, and a call without a number",
      '<|open|>tools<|sep|><|open|>call tool="run"<|sep|><|open|>argument key="a &quot;b&quot; &amp;amp;" type="number"<|sep|>1.50<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
      ["run", '{"a \\"b\\" &amp;": 1.50}'],
    ],
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
    [
      "an argument without a type",
      '<|open|>tools<|sep|><|open|>call tool="search" index="1"<|sep|><|open|>argument key="n"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
      ["search", '{"n": 3}'],
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
  "gpt-oss": [
    [
      "text that begins in unfinished reasoning",
      "<|channel|>analysis<|message|>I weigh it.<|channel|>final<|message|>So it is.",
      ["reasoning", "I weigh it.", "text", "So it is."],
    ],
  ],
};

const short = (text: string) => (text.length > 500 ? `${text.slice(0, 99)}… ${text.length} ${text.slice(-99)}` : text);

describe("OutputParser reads", () => {
  const samples = Object.entries(SAMPLES).flatMap(([profile, rows]) =>
    rows.map(([what, output, wanted, more = {}]) => ({ what, profile, output, wanted, more })),
  );
  test.each(samples)("$what ($profile)", ({ profile, output, wanted, more }) => {
    const options = { ...optionsOf(profile), ...more };
    const splits = output.length > 10_000 ? [[output], output.match(/[\s\S]{1,999}/g) ?? []] : splitsOf(output, 50);
    for (const pieces of splits) {
      const { blocks } = parsePieces(pieces, options);
      expect(labels(blocks).map(short)).toEqual(wanted.map(short));
    }
  });

  test.each([
    ["kimi-k2", "<|tool_call_begin|>functions.run:7<|tool_call_argument_begin|>{}<|tool_call_end|>", "functions.run:7"],
    ["mistral-args", "[TOOL_CALLS]run[CALL_ID]a1b2c3d4e[ARGS]{}", "a1b2c3d4e"],
  ])("the ids that a model writes, once each (%s)", (profile, output, id) => {
    const { blocks } = parsePieces([output + output], optionsOf(profile));
    expect(blocks.map((block) => block.id)).toEqual([id, "call-0"]);
  });

  test("no id that is invalid in a reply", () => {
    const { blocks } = parsePieces(["[TOOL_CALLS]run[CALL_ID]<b>[ARGS]{}"], optionsOf("mistral-args"));
    expect(blocks.map((block) => block.id)).toEqual(["call-0"]);
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
    ["parameters after it", '<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter></｜DSML｜invoke>', false],
    ["the mark of the group after it", "\n</｜DSML｜tool_calls>", true],
    ["nothing after it", "", true],
  ])("an object in place of parameters, with %s", (_, behind, isWhole) => {
    const output = `<｜DSML｜invoke name="search">{"q": "one"}${behind}`;
    for (const pieces of splitsOf(output, 20)) {
      const [call, ...rest] = parsePieces(pieces, optionsOf("deepseek-v4")).blocks;
      expect([call?.text, call?.complete]).toEqual([`{"q": "one"${isWhole ? "}" : ""}`, isWhole]);
      expect(rest.map(({ text }) => text).join("")).toBe(isWhole ? "" : behind);
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
