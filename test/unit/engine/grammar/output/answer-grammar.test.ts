import { describe, expect, test } from "vitest";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { answerGrammar } from "../../../../../engine/grammar/output/answer-grammar.ts";
import type { OutputConstraint } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { matcherOf } from "../gbnf-matcher.ts";
import { answerText } from "../grammar-texts.ts";

const JSON_OBJECT: OutputConstraint = { kind: { $case: "jsonObject", value: {} } };
const jsonSchema = (schemaJson: string, strict = true): OutputConstraint => ({
  kind: { $case: "jsonSchema", value: { name: "answer", schemaJson, strict } },
});

describe("answerGrammar", () => {
  test("is undefined without constraint", () => {
    expect(answerGrammar(undefined, new GrammarRules())).toBeUndefined();
    expect(answerGrammar({ kind: undefined }, new GrammarRules())).toBeUndefined();
  });

  test("matches one JSON object and nothing after it", () => {
    const matches = matcherOf(answerText(JSON_OBJECT));
    expect(['{"a": [1, null]}', "{}"].map(matches)).toEqual([true, true]);
    expect(["[]", "{}\n", "{} ", "\n\n{}", '"a"'].map(matches)).toEqual([false, false, false, false, false]);
  });

  test("matches a value of the schema", () => {
    const matches = matcherOf(
      answerText(jsonSchema('{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')),
    );
    expect(['{"n": 5}', "{}", '{"n": "5"}'].map(matches)).toEqual([true, false, false]);
  });

  test("refuses a strict schema with an unenforced keyword, with its position", () => {
    const schema = '{"properties":{"list":{"type":"array","uniqueItems":true}}}';
    expect(() => answerText(jsonSchema(schema))).toThrow(
      "Invalid JSON Schema at output_constraint.json_schema.schema_json#/properties/list/uniqueItems: this keyword cannot be enforced",
    );
    expect(answerGrammar(jsonSchema(schema, false), new GrammarRules())?.unenforced).toEqual([
      "output_constraint.json_schema.schema_json#/properties/list/uniqueItems",
    ]);
  });

  test.each([
    ["broken JSON", '{"type":'],
    ["a long text", `{"description":"${"x".repeat(300_000)}"}`],
  ])("refuses %s without quoting it", (_, schema) => {
    expect(() => answerText(jsonSchema(schema))).toThrow(
      /^Invalid JSON Schema at [a-z_.]+#: is (not valid JSON|too long)\.$/,
    );
  });
});
