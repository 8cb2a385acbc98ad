import { describe, expect, test } from "vitest";
import { AskedTexts, checkTexts, type Mismatch } from "../../../../engine/grammar/validation/answer-check.ts";
import { SchemaValidator } from "../../../../engine/grammar/validation/schema-validator.ts";
import { WorkBudget } from "../../../../engine/work-budget.ts";
import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { tool } from "../../../support/engine/canonical.ts";
import { blockEnd, delta, textStart, toolCallStart } from "../../../support/events/events.ts";
import { independentValidator } from "../../../support/schemas/independent-validator.ts";
import { SCHEMA_CASES } from "./schema-cases.ts";

const verdict = (schema: unknown, text: string) => new SchemaValidator(schema).check(JSON.parse(text));
const isJson = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};
const allows = (schema: unknown, text: string) => verdict(schema, text) !== "refused";

const exact = SCHEMA_CASES.filter(({ unenforced }) => unenforced === undefined);
/** Ajv refuses these or recurses endlessly, allows hosts without a dot, or reads what this validator leaves out. */
const NOT_FOR_AJV = ["a cyclic alternative", "unknown keywords", "addresses", "nothing unevaluated"];
/** Forms of earlier drafts, and addresses. */
const OLDER = /"(?:nullable|additionalItems|dependencies)"|"exclusiveM\w+":true|"items":\[|"pattern":"\(\?<|"\$id"/;

test.each(exact)("texts that a grammar matches are allowed: $name", ({ schema, accepts }) => {
  expect(accepts.filter((text) => !allows(schema, text))).toEqual([]);
});

test.each(exact.filter(({ name, schema }) => !NOT_FOR_AJV.includes(name) && !OLDER.test(JSON.stringify(schema))))(
  "an independent validator allows the same: $name",
  ({ schema, accepts, rejects }) => {
    const isAllowed = independentValidator(schema);
    for (const text of [...accepts, ...rejects].filter(isJson))
      expect(allows(schema, text), text).toBe(isAllowed(JSON.parse(text)));
  },
);

describe("keywords follow the specification", () => {
  const cases: readonly [schema: unknown, good: readonly string[], bad: readonly string[]][] = [
    [{ type: "string", nullable: true }, ["null"], ["1"]],
    [{ minimum: 1, exclusiveMinimum: true, maximum: 3, exclusiveMaximum: true }, ["2"], ["1", "3"]],
    [{ multipleOf: 0.1 }, ["0.3", "7"], ["0.35"]],
    [{ items: [{ type: "null" }], additionalItems: { type: "string" } }, ['[null,"a"]'], ["[null,1]"]],
    [{ uniqueItems: true }, ["[1,2]", "[[1],[2]]"], ["[1,1]", '[{"a":1},{"a":1}]']],
    [{ properties: { toString: { type: "null" } }, required: ["valueOf"] }, ['{"valueOf":1}'], ["{}"]],
    [{ oneOf: [{ minimum: 1 }, { maximum: 2 }] }, ["0", "3"], ["1", "2"]],
    [false, [], ["1", "null"]],
    [{ pattern: "a^b|x{2,3}y" }, ['"xxy"', '"xxxxy"'], ['"xy"', '"ab"']],
    [{ pattern: "(?=a)" }, ['"b"'], []],
    [{ format: "date-time" }, ['"2024-02-29T23:59:60z"', '"2024-01-01t00:00:00.123456789012Z"'], ['"2024-01-01"']],
    [{ format: "email" }, ['"a!b@c.d"', '"\\"a b\\"@c"'], ['"a"', '"a@"', '"a b@c"']],
    [{ contains: { const: 1 } }, ["[2,1]", "1"], ["[]", "[2]"]],
    [{ contains: { const: 1 }, minContains: 2, maxContains: 3 }, ["[1,1]"], ["[1]", "[1,1,1,1]"]],
    [
      { patternProperties: { "^x": { type: "null" } }, additionalProperties: false },
      ['{"xa":null}'],
      ['{"xa":1}', '{"a":1}'],
    ],
    [{ patternProperties: { "(?=x)": { type: "null" } }, additionalProperties: false }, ['{"a":1}'], []],
    [{ dependencies: { a: ["b"], c: { maxProperties: 1 } } }, ['{"c":1}'], ['{"a":1}', '{"c":1,"b":1}']],
    [{ unevaluatedProperties: false, $dynamicRef: "#x" }, ['{"a":1}'], []],
  ];
  test.each(cases)("the validator follows the specification of keywords: %j", (schema, good, bad) => {
    expect(good.filter((text) => !allows(schema, text))).toEqual([]);
    expect(bad.filter((text) => allows(schema, text))).toEqual([]);
  });
});

test("a schema whose readings double with each level exceeds the budget and refuses nothing", () => {
  const doubling = { anyOf: [1, 2].map((n) => ({ items: { $ref: "#" }, maxItems: n, type: "array" })) };
  const deep = (levels: number) => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
  expect(allows(doubling, deep(5))).toBe(false);
  expect(allows(doubling, deep(100))).toBe(true);
});

test("an exponential pattern is matched in linear time, and one beyond the budget refuses nothing", () => {
  const text = (length: number) => `${"a".repeat(length)}!`;
  for (const pattern of ["(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^((a*)*)*$", "^(.*a){6}$"]) {
    expect(allows({ pattern }, JSON.stringify(text(4000))), pattern).toBe(false);
  }
  expect(allows({ pattern: "^((a?){999999}){999999}b$" }, JSON.stringify(text(5000)))).toBe(true);
});

describe("checks beyond the budget are not made", () => {
  const refs = (count: number, to: object) => ({
    allOf: Array.from({ length: count }, () => ({ $ref: "#/$defs/b" })),
    $defs: { b: { allOf: Array.from({ length: count }, () => ({ $ref: "#/$defs/c" })) }, c: to },
  });
  const long = JSON.stringify("x".repeat(100_000));
  const wide = JSON.stringify(Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, 1])));
  test.each<[name: string, schema: unknown, text: string]>([
    ["a constant beside a long answer", refs(60, { not: { const: 1 } }), long],
    ["a constant beside a wide answer", refs(60, { not: { const: {} } }), wide],
    ["members of a wide answer", refs(60, { properties: { a: { type: "null" } } }), wide],
    ["members by pattern", refs(60, { patternProperties: { "^z": { type: "null" } } }), wide],
    [
      "keys that depend on others",
      refs(60, { dependentRequired: { k1: Array.from({ length: 2000 }, () => "k2") } }),
      wide,
    ],
    [
      "an endless choice",
      { anyOf: Array.from({ length: 50 }, () => ({ items: { $ref: "#" }, minItems: 1 })) },
      "[[[[[[[[[]]]]]]]]]",
    ],
  ])("a check that costs more than the budget is not made: %s", (_name, schema, text) => {
    const budget = new WorkBudget(20_000);
    expect(new SchemaValidator(schema).check(JSON.parse(text), budget)).toBe("unchecked");
  });

  test("an exhausted budget skips the checks after it", () => {
    const budget = new WorkBudget(10);
    const validator = new SchemaValidator({ type: "array", items: { type: "null" } });
    expect(validator.check([null, null, null, null, null], budget)).toBe("unchecked");
    expect(validator.check([1], budget)).toBe("unchecked");
    expect(validator.check([1])).toBe("refused");
  });
});

test.each([
  [{ properties: { a: { $ref: "#/definitions/Missing" } } }],
  [{ properties: { a: { $ref: "#anchor" } } }],
  [{ properties: { a: { $ref: "#/%" } } }],
  [{ properties: { a: { $ref: "#/type" } }, type: "object" }],
])("an unresolvable reference allows any value: %j", (schema) => {
  expect([verdict(schema, '{"a":1}'), verdict({ ...schema, required: ["b"] }, '{"a":1}')]).toEqual([
    "allowed",
    "refused",
  ]);
});

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
  ])("a complete text that its schema forbids is a mismatch: %s", (_name, asked, start, text, mismatch) => {
    expect(see(asked, start, text)).toEqual([mismatch]);
  });

  test.each<[name: string, Asked, start: ReturnType<typeof textStart>, text: string, complete?: boolean]>([
    ["a valid answer", answer(true), textStart(0), '{"n":"aa"}'],
    ["valid arguments", tools(true), call, '{"n":"a"}'],
    ["an unknown tool", tools(true), toolCallStart(0, "get"), "{}"],
    ["a truncated answer", answer(true), textStart(0), '{"n":', false],
    ["an answer with an invalid schema", answer(false, { type: "x" }), textStart(0), "{}"],
  ])("a complete text that its schema allows is no mismatch: %s", (_name, asked, start, text, complete = true) => {
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
