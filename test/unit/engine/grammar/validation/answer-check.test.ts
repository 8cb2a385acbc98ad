import { describe, expect, test } from "vitest";
import { AskedTexts, checkTexts, type Mismatch } from "../../../../../engine/grammar/validation/answer-check.ts";
import type { GenerateRequest } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { tool } from "../../../../support/engine/canonical.ts";
import { blockEnd, delta, reasoningStart, textStart, toolCallStart } from "../../../../support/events/events.ts";

type Asked = Partial<Pick<GenerateRequest, "outputConstraint" | "tools">>;

const SCHEMA = { type: "object", properties: { n: { type: "string", pattern: "^a+$" } }, required: ["n"] };
const answer = (strict: boolean, schema: object = SCHEMA): Asked => ({
  outputConstraint: { kind: { $case: "jsonSchema", value: { name: "x", schemaJson: JSON.stringify(schema), strict } } },
});
const anyObject: Asked = { outputConstraint: { kind: { $case: "jsonObject", value: {} } } };
const tools = (strict: boolean): Asked => ({ tools: [{ ...tool("set", "Set", SCHEMA), strict }] });

function see(of: Asked, start: ReturnType<typeof textStart>, text: string, complete = true): readonly Mismatch[] {
  const asked = new AskedTexts({ outputConstraint: undefined, tools: [], ...of });
  for (const events of [[start, ...[...text].map((piece) => delta(0, piece))], [blockEnd(0, complete)], []])
    asked.see(events);
  return checkTexts(asked.whole).mismatches;
}

describe("complete texts are checked against their schema", () => {
  const call = toolCallStart(0, "set");
  test.each<[name: string, Asked, start: ReturnType<typeof textStart>, text: string, Mismatch]>([
    ["an answer that violates the schema", answer(true), textStart(0), '{"n":"b"}', { part: "answer", strict: true }],
    ["an answer that is not JSON", answer(false), textStart(0), '{"n":"a"', { part: "answer", strict: false }],
    ["an answer that is not an object", anyObject, textStart(0), "[]", { part: "answer", strict: true }],
    ["arguments that violate the schema", tools(true), call, "{}", { part: "arguments", strict: true }],
    ["arguments of a tool that is not strict", tools(false), call, '{"n":1}', { part: "arguments", strict: false }],
  ])("and rejected: %s", (_name, asked, start, text, mismatch) => {
    expect(see(asked, start, text)).toEqual([mismatch]);
  });

  test.each<[name: string, Asked, start: ReturnType<typeof textStart>, text: string, complete?: boolean]>([
    ["a valid answer", answer(true), textStart(0), '{"n":"aa"}'],
    ["valid arguments", tools(true), call, '{"n":"a"}'],
    ["reasoning", answer(true), reasoningStart(0), "so"],
    ["text beside tools", tools(true), textStart(0), "so"],
    ["an unknown tool", tools(true), toolCallStart(0, "get"), "{}"],
    ["a truncated answer", answer(true), textStart(0), '{"n":', false],
    ["an answer with an invalid schema", answer(false, { type: "x" }), textStart(0), "{}"],
  ])("and accepted: %s", (_name, asked, start, text, complete = true) => {
    expect(see(asked, start, text, complete)).toEqual([]);
  });
});

test("a text without verdict counts as unchecked, not as a mismatch", () => {
  const text = { part: "arguments" as const, strict: false, text: "{}" };
  const broken = [
    { ...text, schema: "{" },
    { ...text, schema: '{"type":"x"}' },
    { ...text, schema: '{"type":"object"}' },
  ];
  expect(checkTexts(broken)).toEqual({ mismatches: [], unchecked: 2 });
});

test("all texts of an answer share one budget", () => {
  const refs = {
    allOf: Array.from({ length: 200 }, () => ({ $ref: "#/$defs/a" })),
    $defs: { a: { not: { const: 1 } } },
  };
  const dear = {
    part: "answer" as const,
    strict: false,
    schema: JSON.stringify(refs),
    text: JSON.stringify("x".repeat(50_000)),
  };
  const cheap = { part: "answer" as const, strict: false, schema: '{"type":"null"}', text: "1" };
  expect(checkTexts([cheap])).toEqual({ mismatches: [{ part: "answer", strict: false }], unchecked: 0 });
  expect(checkTexts([dear, dear, dear, cheap])).toEqual({ mismatches: [], unchecked: expect.any(Number) });
  expect(checkTexts([dear, dear, dear, cheap]).unchecked).toBeGreaterThan(1);
});
