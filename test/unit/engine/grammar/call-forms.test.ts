import { describe, expect, test } from "vitest";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { type ToolCallGrammarOptions, toolCallGrammar } from "../../../../engine/grammar/output/tool-call-grammar.ts";
import { marksOfText } from "../../../../engine/output-parser/markers.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import { formOf, type ToolCallMarkers } from "../../../../engine/tool-calls/forms.ts";
import { FAMILIES, optionsOf, type SampleCall } from "../output-parser/families.ts";
import { parsePieces } from "../output-parser/parse-output.ts";
import { matcherOf } from "./gbnf-matcher.ts";
import { callText } from "./grammar-texts.ts";

const SCHEMA = {
  type: "object",
  properties: {
    q: { type: "string" },
    mode: { enum: ["fast", "slow"] },
    n: { type: "integer", minimum: 1, maximum: 5 },
    tags: { type: "array", items: { $ref: "#/$defs/tag" } },
  },
  required: ["q", "n"],
  $defs: { tag: { type: "string", maxLength: 3 } },
};
const tool = (name: string, schema: unknown, strict = false) => ({
  name,
  parametersJsonSchema: schema === undefined ? "" : JSON.stringify(schema),
  strict,
});
const TOOLS = [tool("search", SCHEMA), tool("run", undefined)];

const SEARCH: SampleCall = { name: "search", args: { q: "a < b", mode: "slow", n: 3, tags: ["x"] } };
const SHORT: SampleCall = { name: "search", args: { q: "", n: 1 } };
const RUN: SampleCall = { name: "run", args: {} };
const WRONG: readonly SampleCall[] = [
  { name: "rm", args: {} },
  { name: "run", args: { q: "a" } },
  { name: "search", args: { q: "a" } },
  { name: "search", args: { q: "a", n: 6 } },
  { name: "search", args: { q: "a", mode: "other", n: 1 } },
  { name: "search", args: { q: "a", n: 1, tags: ["long"] } },
];

/** Their templates join several calls in a way that the profile does not describe. */
const ONE_CALL_ONLY = ["deepseek-v3", "deepseek-r1"];

function grammarOf(profile: string, more: Partial<ToolCallGrammarOptions> = {}): string {
  const markers = callMarkers(profile);
  const tools = more.tools ?? TOOLS;
  return callText({ markers, tools, argumentTypes: argumentTypes(tools), ...more });
}

function callMarkers(profile: string): ToolCallMarkers {
  const { toolCall } = loadProfile(profile);
  if (toolCall === undefined) throw new Error("the profile has no calls");
  return toolCall;
}

const WRITTEN = FAMILIES.map(({ write, written = write, ...family }) => ({ ...family, write: written }));

describe.each(WRITTEN)("a mandatory call, as $profile writes it", ({ profile, write }) => {
  test("a mandatory call is of one tool, follows its schema, and is parsed again", () => {
    const matches = matcherOf(grammarOf(profile));
    for (const call of [SEARCH, SHORT, RUN]) {
      const text = write([call]);
      expect(matches(text), text).toBe(true);
      const options = { ...optionsOf(profile), argumentTypes: argumentTypes(TOOLS) };
      const { blocks } = parsePieces([text], options);
      expect(blocks.map((block) => [block.name, JSON.parse(block.text)])).toEqual([[call.name, call.args]]);
    }
    expect(WRONG.map((call) => write([call])).filter(matches)).toEqual([]);
    const around = [`${write([RUN])}\n`, `Sure. ${write([RUN])}`, write([RUN, RUN]), ""];
    expect(around.filter(matches)).toEqual([]);
  });

  test("a mandatory call may have any arguments if no schema is enforced", () => {
    const matches = matcherOf(grammarOf(profile, { held: "strict" }));
    const calls = [SEARCH, RUN, { name: "search", args: { unknown: { list: [1, { b: "x" }], none: null } } }];
    expect(calls.map((call) => matches(write([call])))).toEqual([true, true, true]);
    expect(matches(write([{ name: "rm", args: {} }]))).toBe(false);
  });

  // A form without marks around a call allows one call.
  if (!ONE_CALL_ONLY.includes(profile))
    test("a mandatory call may be several calls", () => {
      const matches = matcherOf(grammarOf(profile, { maxCalls: 3 }));
      const texts = [1, 2, 3, 4].map((count) => write(Array.from({ length: count }, () => RUN)));
      expect(texts.map(matches)).toEqual([true, true, true, false]);
    });

  test("a mandatory call begins where the output parser detects it", () => {
    const markers = callMarkers(profile);
    const { reasoning, text } = loadProfile(profile);
    const otherMarks = [reasoning?.open ?? "", reasoning?.close ?? "", ...(text ? marksOfText(text) : [])];
    const { openers } = toolCallGrammar({ markers, tools: TOOLS, otherMarks }, new GrammarRules());
    const reading = formOf(markers).reading(markers, { names: new Set(), argumentTypes: () => undefined });
    const begun = openers.flatMap(({ mark, isKept }) => (isKept ? [] : [mark]));
    // The parser detects other spellings, too.
    const readAt = reading?.openers ?? [];
    expect(begun.filter((mark) => !readAt.some((opener) => opener.startsWith(mark)))).toEqual([]);
    expect(otherMarks.filter((other) => begun.some((mark) => other.startsWith(mark)))).toEqual([]);
    expect(openers.some(({ isKept }) => isKept)).toBe(reading?.opensAtBrace);
  });
});

describe("arguments between tags", () => {
  const matcher = (schema: unknown, strict = false) =>
    matcherOf(grammarOf("glm-4.7", { tools: [tool("t", schema, strict)] }));
  const call = (...args: (readonly [key: string, value: string])[]) =>
    `<tool_call>t${args.map(([key, value]) => `<arg_key>${key}</arg_key><arg_value>${value}</arg_value>`).join("")}</tool_call>`;

  test("a string is any text without the closing mark, even with a prefix of it", () => {
    const matches = matcher({ properties: { q: { type: "string" } } });
    expect(
      ["", "\n<b>\u{1f600}", "</arg", "<</</arg_valu</arg_value", "</arg_value "].map((q) => matches(call(["q", q]))),
    ).toEqual(Array(5).fill(true));
    expect(matches(call(["q", "a</arg_value>b"]))).toBe(false);
  });

  test("a value of several types, or of an unnamed one, is text", () => {
    const matches = matcher({ properties: { a: { type: ["string", "integer"] }, b: {}, c: true } });
    expect(matches(call(["a", "x"], ["b", "{"], ["c", "1"]))).toBe(true);
  });

  test("a required parameter without a schema is present", () => {
    const matches = matcher({ type: "object", properties: {}, required: ["a"] });
    expect([call(["a", "x"]), call()].map(matches)).toEqual([true, false]);
  });

  test("a forbidden parameter is absent", () => {
    const matches = matcher({ properties: { a: false, b: { type: "null" } } });
    expect([call(["b", "null"]), call(["a", "x"])].map(matches)).toEqual([true, false]);
  });

  test.each([
    [{ properties: { q: { type: "string", maxLength: 3 } } }, "#/properties/q/maxLength"],
    [{ properties: { q: { type: ["string", "null"], enum: ["a", null] } } }, "#/properties/q/enum"],
    [{ properties: { n: { type: "integer", multipleOf: 1013 } } }, "#/properties/n/multipleOf"],
    [{ properties: { a: { type: "array", items: { $ref: "https://x.org/b" } } } }, "#/properties/a/items/$ref"],
    [{ properties: {}, anyOf: [{ required: ["a"] }] }, "#/anyOf"],
    [{ properties: { q: { type: ["string", "integer"] } } }, "#/properties/q/type"],
    [{ properties: { q: { type: ["string", "number"], minimum: 1 } } }, "#/properties/q/minimum"],
    [{ properties: { q: { anyOf: [{ type: "string", maxLength: 1 }, { type: "null" }] } } }, "#/properties/q/anyOf"],
    [{ properties: {}, enum: [{}] }, "#/enum"],
  ])("an unenforced keyword is reported, and refused for strict tools: %j", (schema, path) => {
    const markers = callMarkers("glm-4.7");
    const tools = [tool("t", schema)];
    const { unenforced } = toolCallGrammar({ markers, tools, argumentTypes: argumentTypes(tools) }, new GrammarRules());
    expect(unenforced).toEqual([`tools.0.parameters_json_schema${path}`]);
    expect(() => matcher(schema, true)).toThrow(path);
  });

  test("nullable values follow their types, and formats apply, for strict tools too", () => {
    const schema = {
      type: "object",
      properties: {
        a: { anyOf: [{ type: "string", description: "A" }, { type: "null" }], default: null },
        at: { type: "string", format: "date" },
      },
    };
    const matches = matcher(schema, true);
    expect([call(["a", "x"], ["at", "2025-01-31"]), call(["a", "null"]), call(["at", "soon"])].map(matches)).toEqual([
      true,
      true,
      false,
    ]);
  });

  test.each([[{ type: "array" }], [{ type: ["array", "null"] }], [false]])(
    "a schema that allows no object is refused: %j",
    (schema) => {
      expect(() => matcher(schema)).toThrow("no value can satisfy it");
    },
  );

  test("the limit on optional parameters is that of objects", () => {
    const properties = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, {}]));
    expect(() => matcher({ properties: { ...properties(512), never: false }, required: ["q"] })).not.toThrow();
    expect(() => matcher({ properties: properties(513), required: ["q"] })).toThrow("more than 512 optional");
  });

  test("markup that only an engine reads has no grammar", () => {
    const markers = { form: "engine-only", open: "<call>" } as const;
    expect(() => callText({ markers, tools: TOOLS })).toThrow("no value can satisfy it");
  });
});

test("quotation marks in the name of a tool are text", () => {
  const matches = matcherOf(grammarOf("hermes", { tools: [tool('a"b', {})] }));
  expect(matches('<tool_call>\n{"name": "a\\"b", "arguments": {"any": [1]}}\n</tool_call>')).toBe(true);
});
