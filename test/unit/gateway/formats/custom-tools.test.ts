import { describe, expect, test } from "vitest";
import { BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { engineLost } from "../../../../gateway/errors.ts";
import { CompletionFold } from "../../../../gateway/formats/completion.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import type { Event } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { framesOf } from "../../../support/checkers/stream-text.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../../support/events/events.ts";
import { valueAt } from "../../../support/http/value-at.ts";
import { head, prepare, refusal, requestOf } from "./fixture.ts";

/* `custom` tools of responses: a function with one string towards the engine, free text towards the caller. */

const exec = { type: "custom", name: "exec" };
const grammar = (syntax: string, definition: string) => ({ type: "grammar", syntax, definition });

function toolOf(fields: object) {
  const [tool] = requestOf(responses, { tools: [{ ...exec, ...fields }] }).tools;
  return { ...tool, schema: JSON.parse(tool?.parametersJsonSchema ?? "") };
}

describe("towards the engine", () => {
  test("a custom tool is a strict function with one string", () => {
    const { schema, ...tool } = toolOf({ description: "Runs it.", format: { type: "text" } });
    expect(tool).toMatchObject({ name: "exec", description: "Runs it.", strict: true });
    expect(schema).toMatchObject({ type: "object", required: ["input"], additionalProperties: false });
    expect(schema.properties.input).toMatchObject({ type: "string" });
  });

  test.each([
    ["a|b", "^(?:a|b)$"],
    ["^a|b$", "^(?:a|b)$"],
    ["cost \\$", "^(?:cost \\$)$"],
    ["(?P<day>\\d)", "^(?:(?<day>\\d))$"],
  ])("the regex %s of the whole text is the pattern %s, and a hint", (definition, pattern) => {
    const tool = toolOf({ format: grammar("regex", definition), description: "d" });
    expect(tool.schema.properties.input.pattern).toBe(pattern);
    expect(tool).toMatchObject({
      strict: false,
      description: `d\n\nThe text follows this regex grammar:\n${definition}`,
    });
    expect(toolOf({ format: grammar("regex", definition), strict: true })).toMatchObject({ strict: true });
  });

  test("a Lark grammar is a hint", () => {
    const tool = toolOf({ format: grammar("lark", 'start: "a"') });
    expect(tool).toMatchObject({ strict: true, description: 'The text follows this lark grammar:\nstart: "a"' });
    expect(tool.schema.properties.input).not.toHaveProperty("pattern");
  });

  test.each<[object, string]>([
    [{ format: grammar("lark", "x"), strict: true }, "unsupported_value tools[0].format.syntax"],
    [{ format: grammar("gbnf", "x") }, "invalid_value tools[0].format.syntax"],
    [{ format: { type: "grammar", syntax: "lark" } }, "missing_required_parameter tools[0].format.definition"],
    [{ format: { type: "json" } }, "invalid_value tools[0].format.type"],
    [{ format: grammar("regex", "x".repeat(256 * 1024)) }, "invalid_function_parameters tools[0].format"],
    [{ name: "a b" }, "invalid_value tools[0].name"],
    [{ description: 1 }, "invalid_type tools[0].description"],
  ])("a custom tool is refused: %j", (fields, expected) => {
    expect(refusal(responses, { tools: [{ ...exec, ...fields }] })).toBe(expected);
  });

  test("the engine's refusal of a schema is one of the format, or of the parameters of a function", () => {
    const tools = [exec, { type: "namespace", name: "g", tools: [{ type: "function", name: "f" }, exec] }];
    const { schemaPaths } = prepare(responses, { tools });
    const group = ["tools", 1, "tools"];
    expect(schemaPaths).toEqual([
      ["tools", 0, "format"],
      [...group, 0, "parameters"],
      [...group, 1, "format"],
    ]);
  });

  test("a grammar is repeated in the reply, and its default is text", () => {
    const tools = [
      { ...exec, format: grammar("regex", "a") },
      { type: "custom", name: "b" },
    ];
    const encoder = prepare(responses, { tools }).encoder(head);
    expect(valueAt(framesOf(encoder.keepAlive())[0]?.data, "response", "tools")).toEqual([
      { ...exec, description: null, format: grammar("regex", "a") },
      { type: "custom", name: "b", description: null, format: { type: "text" } },
    ]);
  });
});

const answer = (pieces: readonly string[], complete = true): Event[] => [
  started(),
  toolCallStart(0, "exec", "c"),
  ...pieces.map((piece) => delta(0, piece)),
  blockEnd(0, complete),
  finished(),
];

function streamed(events: readonly Event[], failed = false) {
  const encoder = prepare(responses, { tools: [exec], stream: true }).encoder(head);
  const text = events.map((event) => encoder.next(event)).join("");
  const frames = framesOf(text + (failed ? encoder.fail(engineLost("upstream_reset")) : "")).map(({ data }) => data);
  const deltas = frames.filter((data) => valueAt(data, "type") === "response.custom_tool_call_input.delta");
  return {
    deltas: deltas.map((data) => valueAt(data, "delta")),
    done: frames.map((data) => valueAt(data, "input")).find((input) => input !== undefined),
    item: valueAt(frames.at(-1), "response", "output", 0),
  };
}

function folded(events: readonly Event[]) {
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  return valueAt(prepare(responses, { tools: [exec] }).reply(head, fold.result()), "output", 0);
}

describe("the text of a call", () => {
  test.each<[string, string, boolean?]>([
    ['{"input":"ls -la"}', "ls -la"],
    [' {\n "input" : "a\\n\\"b\\"\\\\\\t\\/\\u00e9"\n}', 'a\n"b"\\\t/é'],
    ['{"input":"\\ud83d\\ude00 \\uD83D x \\ude00"}', "😀 \ufffd x \ufffd"],
    ['{"input":"\\ud83d\\ud83d\\ude00"}', "\ufffd😀"],
    ['{"input":"\\ud83d\\n"}', "\ufffd\n"],
    ['{"input":"a\\qb\\u12g"}', "aqb\\u12g"],
    ['{"input":"a\nb"}', "a\nb"],
    ['{"input":"a","more":"b"}', "a"],
    ['{"input":""}', ""],
    ["", ""],
    // Arguments of another form.
    ['{"why":"x","input":"a\\n\\ud83d"}', "a\n\ufffd"],
    ['{"\\u0069nput":"a"}', "a"],
    [`{${" ".repeat(200)}"input":"a"}`, "a"],
    ["*** Begin Patch", "*** Begin Patch"],
    ['{"input":1}', '{"input":1}'],
    [`echo ${"x".repeat(200)}`, `echo ${"x".repeat(200)}`],
    // Cut in the middle.
    ['{"inp', "", false],
    ['{"input":"a\\', "a", false],
    ['{"input":"a\\ud83d', "a", false],
    // Broken by the model: no part of such a text is a program, and none is empty.
    [`{"input":"run(1);${BREAK}x"}`, "run(1);,\\u", false],
    [`{"inp${BREAK}ut":"a"}`, `{"inp${BREAK}ut":"a"}`, false],
    [`${BREAK}run(1);`, `${BREAK}run(1);`, false],
  ])("the text of a call of %j is %j, however it comes", (argumentsJson, expected, complete = true) => {
    const status = complete ? "completed" : "incomplete";
    const item = { type: "custom_tool_call", call_id: "call_c", name: "exec", status, input: expected };
    expect(folded(answer([argumentsJson], complete))).toMatchObject(item);
    const cuts = Array.from({ length: argumentsJson.length }, (_, at) => [
      argumentsJson.slice(0, at),
      argumentsJson.slice(at),
    ]);
    for (const pieces of [[...argumentsJson], ...cuts]) {
      const { deltas, done, item: last } = streamed(answer(pieces, complete));
      expect([deltas.join(""), done, deltas.includes("")]).toEqual([expected, expected, false]);
      expect(last).toMatchObject(item);
    }
  });

  test("of a lost engine is that of the deltas", () => {
    const { deltas, done, item } = streamed(answer(['{"input":"a\\nb\\']).slice(0, 3), true);
    expect([deltas, done]).toEqual([["a\nb"], undefined]);
    expect(item).toMatchObject({ type: "custom_tool_call", status: "incomplete", input: "a\nb" });
  });
});
