import { describe, expect, test } from "vitest";
import { AnswerCheck, type Mismatch } from "../../../../../engine/grammar/validation/answer-check.ts";
import type { GenerateRequest } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, reasoningStart, textStart, toolCallStart } from "../../../../support/events/events.ts";
import { tool } from "../../conversation/canonical.ts";

type Asked = Partial<Pick<GenerateRequest, "outputConstraint" | "tools">>;

const SCHEMA = { type: "object", properties: { n: { type: "string", pattern: "^a+$" } }, required: ["n"] };
const answer = (strict: boolean, schema: object = SCHEMA): Asked => ({
  outputConstraint: { kind: { $case: "jsonSchema", value: { name: "x", schemaJson: JSON.stringify(schema), strict } } },
});
const anyObject: Asked = { outputConstraint: { kind: { $case: "jsonObject", value: {} } } };
const tools = (strict: boolean): Asked => ({ tools: [{ ...tool("set", "Set", SCHEMA), strict }] });

function see(asked: Asked, start: ReturnType<typeof textStart>, text: string, complete = true): readonly Mismatch[] {
  const check = new AnswerCheck({ outputConstraint: undefined, tools: [], ...asked });
  return [
    ...check.see([start, ...[...text].map((piece) => delta(0, piece))]),
    ...check.see([blockEnd(0, complete)]),
    ...check.see([]),
  ];
}

describe("what came whole is looked at with its schema", () => {
  const call = toolCallStart(0, "set");
  test.each<[name: string, Asked, start: ReturnType<typeof textStart>, text: string, Mismatch]>([
    ["an answer that does not fit", answer(true), textStart(0), '{"n":"b"}', { part: "answer", strict: true }],
    ["an answer that is no JSON", answer(false), textStart(0), '{"n":"a"', { part: "answer", strict: false }],
    ["an answer that is no object", anyObject, textStart(0), "[]", { part: "answer", strict: true }],
    ["arguments that do not fit", tools(true), call, "{}", { part: "arguments", strict: true }],
    ["arguments of a tool that is not strict", tools(false), call, '{"n":1}', { part: "arguments", strict: false }],
  ])("and found wrong: %s", (_name, asked, start, text, mismatch) => {
    expect(see(asked, start, text)).toEqual([mismatch]);
  });

  test.each<[name: string, Asked, start: ReturnType<typeof textStart>, text: string, complete?: boolean]>([
    ["an answer that fits", answer(true), textStart(0), '{"n":"aa"}'],
    ["arguments that fit", tools(true), call, '{"n":"a"}'],
    ["reasoning", answer(true), reasoningStart(0), "so"],
    ["text beside tools", tools(true), textStart(0), "so"],
    ["a tool that the request does not know", tools(true), toolCallStart(0, "get"), "{}"],
    ["what was cut", answer(true), textStart(0), '{"n":', false],
    ["what has a schema that is none", answer(false, { type: "x" }), textStart(0), "{}"],
  ])("and passed: %s", (_name, asked, start, text, complete = true) => {
    expect(see(asked, start, text, complete)).toEqual([]);
  });
});
