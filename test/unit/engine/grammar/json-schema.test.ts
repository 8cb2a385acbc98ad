import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { EngineError } from "../../../../engine/errors.ts";
import { choice, NEVER } from "../../../../engine/gbnf/gbnf.ts";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { GRAMMAR_WORK } from "../../../../engine/grammar/output/output-grammar.ts";
import { KEYWORDS, NOT_ENFORCED } from "../../../../engine/grammar/schema/schema-keywords.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { WorkBudget } from "../../../../engine/work-budget.ts";
import { loadLlama } from "../../../support/engine/load-llama.ts";
import { matcherOf } from "./gbnf-matcher.ts";
import { SCHEMA_CASES, UNDECLARED_CASES } from "./schema-cases.ts";

function compile(schema: unknown) {
  const rules = new GrammarRules();
  const { root, unenforced } = toGrammar(schema, rules);
  return { text: finishGrammar(root, rules, ""), unenforced };
}

const nested = (levels: number): unknown => (levels === 0 ? {} : { items: nested(levels - 1) });
const properties = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, {}]));
const chain = (length: number, step: (next: unknown) => unknown) => ({
  $defs: Object.fromEntries(
    Array.from({ length }, (_, i) => [`d${i}`, i === 0 ? { type: "null" } : step({ $ref: `#/$defs/d${i - 1}` })]),
  ),
  $ref: `#/$defs/d${length - 1}`,
});
const nestedChoices = (levels: number) =>
  chain(levels + 1, (next) => ({ anyOf: [1, 2].map((n) => ({ type: "array", items: next, minItems: n })) }));
const integers = (count: number) => ({ anyOf: Array.from({ length: count }, (_, i) => ({ const: i })) });

describe("toGrammar", () => {
  test.each(SCHEMA_CASES)("toGrammar converts $name", ({ schema, accepts, rejects, unenforced }) => {
    const grammar = compile(schema);
    const matches = matcherOf(grammar.text);
    expect(accepts.filter((text) => !matches(text))).toEqual([]);
    expect(rejects.filter((text) => matches(text))).toEqual([]);
    expect(grammar.unenforced).toEqual(unenforced ?? []);
    for (const text of accepts) expect(() => JSON.parse(text)).not.toThrow();
  });

  test.each([
    [40, "x".repeat(6), 2, "y".repeat(8), 3],
    [98, "x".repeat(12), 3, "y".repeat(14), 4],
    [217, "x".repeat(20), 3, "y".repeat(30), 5],
  ])("a mail address of at most %i characters has that many at most", (maxLength, part, parts, label, labels) => {
    const matches = matcherOf(compile({ format: "email", type: "string", maxLength }).text);
    const mail = (extra: number) =>
      `"${Array(parts).fill(part).join(".")}@${Array(labels + extra)
        .fill(label)
        .join(".")}"`;
    expect(mail(0).length - 2).toBeLessThanOrEqual(maxLength);
    expect(matches(mail(0))).toBe(true);
    expect(mail(1).length - 2).toBeGreaterThan(maxLength);
    expect(matches(mail(1))).toBe(false);
  });

  test("toGrammar writes counts beyond any answer in few rules, and lower counts exactly", () => {
    const endless = { maxLength: 1e300, minItems: 2, maxItems: 1e308, maxProperties: Number.MAX_VALUE };
    const { text } = compile(endless);
    expect(text.split("\n").length).toBeLessThan(60);
    const matches = matcherOf(text);
    for (const whole of ['"abc"', "[1,2]", "{}", '{"a":1}']) expect(matches(whole), whole).toBe(true);
    expect(matches("[1]")).toBe(false);
    expect(compile({ type: "string", maxLength: 2 ** 30 - 1 }).text).not.toBe(compile({ type: "string" }).text);
  });

  test.each([
    ["a type that does not exist", { type: "text" }, "#/type"],
    ["no types", { properties: { a: { type: [] } } }, "#/properties/a/type"],
    ["an empty enum", { enum: [] }, "#/enum"],
    ["a negative length", { properties: { "my key": { minLength: -1 } } }, "#/properties/*/minLength"],
    ["a bound that is not a number", { minimum: "1" }, "#/minimum"],
    ["a broken pattern", { items: { pattern: "(" } }, "#/items/pattern"],
    ["properties in a list", { properties: [] }, "#/properties"],
    ["required that is not a list", { required: true }, "#/required"],
    ["a schema that is a number", { items: 5 }, "#/items"],
    ["nothing as schema", undefined, "#"],
    ["a reference to nothing", { $ref: "#/$defs/x" }, "#/$ref"],
    ["a reference to an anchor", { $ref: "#x" }, "#/$ref"],
    ["a broken definition that is referred to", { a: { type: 1 }, $ref: "#/a" }, "#/a/type"],
  ])("toGrammar refuses %s with its position", (_, schema, where) => {
    expect(() => compile(schema)).toThrowError(
      expect.objectContaining({
        reason: "INVALID_SCHEMA",
        message: expect.stringContaining(`Invalid JSON Schema at ${where}: `),
      }),
    );
  });

  test.each([
    ["false", false],
    ["contradicting bounds", { type: "integer", minimum: 5, maximum: 4 }],
    ["contradicting lengths", { type: "string", minLength: 5, maxLength: 4 }],
    ["a closed object without what it requires", { type: "object", required: ["a"], additionalProperties: false }],
    ["an object that must hold itself", { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }],
    ["a reference to itself", { $ref: "#" }],
    ["a cycle of references", { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" }],
    ["too few items", { type: "array", prefixItems: [{}], items: false, minItems: 2 }],
  ])("toGrammar refuses an unsatisfiable schema: %s", (_, schema) => {
    expect(() => compile(schema)).toThrowError(expect.objectContaining({ reason: "INVALID_SCHEMA" }));
  });

  test.each([
    ["49 levels", nested(49)],
    ["100,000 levels", JSON.parse("[".repeat(100_000) + "]".repeat(100_000))],
    ["10,000 properties", { properties: properties(10_000) }],
    ["600 optional properties", { properties: properties(600) }],
    ["300 KiB of text", { description: "x".repeat(300 * 1024) }],
    ["a long chain of references", chain(257, (next) => ({ items: next }))],
    ["too many alternatives", integers(300)],
    ["a product of alternatives", { allOf: [integers(30), integers(30), integers(30)] }],
    [
      "a long enum of long names for a map",
      {
        properties: Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`${i}${"k".repeat(640)}`, {}])),
        additionalProperties: true,
      },
    ],
  ])("toGrammar refuses %s", (_, schema) => {
    expect(() => compile(schema)).toThrowError(expect.objectContaining({ reason: "INVALID_SCHEMA" }));
  });

  test.each([
    [
      "arrays",
      {
        anyOf: [
          { type: "array", items: { $ref: "#" } },
          { type: "array", items: { $ref: "#" }, maxItems: 5 },
        ],
      },
    ],
    ["objects", { anyOf: [1, 2].map((n) => ({ properties: { a: { $ref: "#" }, b: { const: n } } })) }],
    ["strings", { anyOf: Array.from({ length: 70 }, (_, n) => ({ type: "string", maxLength: n + 5 })) }],
    ["numbers", { anyOf: Array.from({ length: 70 }, (_, n) => ({ type: "integer", minimum: n })) }],
  ])("toGrammar reduces alternatives whose readings multiply with depth to types and reports them: %s", (_, schema) => {
    const { text, unenforced } = compile(schema);
    expect(unenforced[0]).toMatch(/(?:anyOf|\$ref)$/);
    expect(text.length).toBeLessThan(8_000);
  });

  test("toGrammar enforces the types of ambiguous alternatives, and the keywords beside them", () => {
    const { text } = compile({
      properties: { a: nestedChoices(7), n: { type: "integer" } },
      required: ["a", "n"],
      ...{ $defs: nestedChoices(7).$defs },
    });
    const matches = matcherOf(text);
    expect(['{"a": [["x"]], "n": 1}', '{"a": [], "n": 2}'].filter((each) => !matches(each))).toEqual([]);
    expect(['{"a": {}, "n": 1}', '{"a": [], "n": "1"}'].filter(matches)).toEqual([]);
  });

  test.each(UNDECLARED_CASES)("with undeclared properties allowed, $name", ({ schema, accepts, rejects }) => {
    const rules = new GrammarRules();
    const { root, unenforced } = toGrammar(schema, rules, { undeclared: "any" });
    const matches = matcherOf(finishGrammar(root, rules, ""));
    expect(unenforced).toEqual([]);
    expect(accepts.filter((text) => !matches(text))).toEqual([]);
    expect(rejects.filter((text) => matches(text))).toEqual([]);
  });

  test("with undeclared properties, the schemas of one grammar share the limit on orders; later schemas use the declared order", () => {
    const names = Array.from({ length: 8 }, (_, i) => `p${i}`);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "integer" }]));
    const schema = { type: "object", properties, required: names, additionalProperties: false };
    const rules = new GrammarRules(new WorkBudget(GRAMMAR_WORK));
    const roots = Array.from({ length: 40 }, () => toGrammar(schema, rules, { undeclared: "any" }).root);
    const text = (order: readonly string[]) => `{${order.map((name) => `"${name}": 1`).join(", ")}}`;
    const [first, last] = [roots.at(0), roots.at(-1)].map((root) => matcherOf(finishGrammar(root ?? NEVER, rules, "")));
    expect([first, last].map((matches) => matches?.(text(names)))).toEqual([true, true]);
    expect([first, last].map((matches) => matches?.(text(names.toReversed())))).toEqual([true, false]);
    expect(() => finishGrammar(choice(...roots), rules, "")).not.toThrow();
  });

  test("listed values keep their types, whatever keywords stand beside the list", () => {
    const matches = matcherOf(compile({ enum: [{ a: "b" }, "c", [1], ["d"]], items: { type: "integer" } }).text);
    expect(['{"a": "b"}', '"c"', "[1]", '["d"]'].map(matches)).toEqual([true, true, true, false]);
  });

  test.each([
    [
      "a first property with other values",
      { anyOf: [1, 2].map((n) => ({ properties: { kind: { const: n }, a: { $ref: "#" } }, required: ["kind"] })) },
    ],
    [
      "first properties with other names",
      { anyOf: ["and", "or"].map((name) => ({ properties: { [name]: { items: { $ref: "#" } } }, required: [name] })) },
    ],
    ["types", { anyOf: [{ items: { $ref: "#" } }, { additionalProperties: { $ref: "#" } }, { type: "null" }] }],
    ["values that are listed", { anyOf: [{ enum: ["leaf", 1, null] }, { type: "array", items: { $ref: "#" } }] }],
    ["a few levels of alternatives", nestedChoices(6)],
    ["the values of many strings", { anyOf: Array.from({ length: 200 }, (_, n) => ({ const: `value ${n}` })) }],
  ])("toGrammar accepts recursion if alternatives are distinguished by %s", (_, schema) => {
    expect(compile(schema).text).toContain("root ::= ");
  });

  test.each([
    ["47 levels below the first", nested(47)],
    ["a chain of 256 references", chain(256, (next) => ({ items: next }))],
    ["512 optional properties", { properties: properties(512) }],
    ["a number of items that no text can have", { items: { maxItems: 1e15 }, maxItems: 1e15 }],
    ["one long name", { properties: { ["n".repeat(6_000)]: {} }, additionalProperties: true }],
    ["values with a long common beginning", { enum: [`${"e".repeat(20_000)}1`, `${"e".repeat(20_000)}2`] }],
  ])("toGrammar accepts %s", (_, schema) => {
    expect(compile(schema).text).toContain("root ::= ");
  });

  test("toGrammar refuses a name longer than the call stack is deep as too complex", () => {
    const schema = { properties: { ["n".repeat(50_000)]: {} }, additionalProperties: true };
    expect(() => compile(schema)).toThrow("too complex");
  });
});

const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));

/** Returns the work of a schema without limit; for a refused schema the work up to the refusal. */
function workOf(schema: object): number {
  const budget = new WorkBudget(Number.POSITIVE_INFINITY);
  try {
    toGrammar(schema, new GrammarRules(budget));
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
  }
  return budget.spent;
}

test.each(["anyOf", "oneOf"])("a list of too many alternatives is not visited: %s", (keyword) => {
  const list = (count: number) => ({ properties: { a: { [keyword]: times(count, (at) => ({ const: at })) } } });
  expect(() => toGrammar(list(256), new GrammarRules())).not.toThrow();
  const facts = expect.objectContaining({ pointer: `/properties/a/${keyword}`, fault: "costly" });
  const refused = { facts, reason: "INVALID_SCHEMA" };
  expect(() => toGrammar(list(257), new GrammarRules())).toThrowError(expect.objectContaining(refused));
  // The result is the cost of the first check; later steps did not multiply it.
  expect(workOf(list(4_000))).toBeLessThan(4 * 4_000);
});

const README = readFileSync(new URL("../../../../engine/docs/structured-output.md", import.meta.url), "utf8");
/** The keywords of each line of the table, and whether the line lists them as not enforced. */
const LINES = README.split("\n").flatMap((line) => {
  const [, keywords = "", enforced = ""] = line.startsWith("| `") ? line.split("|") : [];
  const names = [...keywords.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
  return names.some((name) => name in KEYWORDS) ? [{ names, isNothing: enforced.trim() === "nothing" }] : [];
});

test("the documented table lists every keyword once, and those that are not enforced", () => {
  const named = LINES.flatMap(({ names }) => names);
  expect(named.toSorted()).toEqual(Object.keys(KEYWORDS).toSorted());
  expect(LINES.flatMap(({ names, isNothing }) => (isNothing ? names : [])).toSorted()).toEqual(NOT_ENFORCED.toSorted());
});

const llama = await loadLlama();
const schemas: unknown[] = [
  ...SCHEMA_CASES.map((each) => each.schema),
  { type: "object", properties: Object.fromEntries(Array.from({ length: 256 }, (_, i) => [`p${i}`, {}])) },
  { type: "array", items: { maxLength: 1e15, type: "string" }, minItems: 1e6, maxItems: 1e15 },
  { enum: Array.from({ length: 1000 }, (_, i) => `value-${(i * 7919) % 10_007}`) },
];

describe.skipIf(llama === undefined)("llama.cpp (skipped where node-llama-cpp has no binary)", () => {
  test.each(schemas.map((schema, i) => [i, schema] as const))(
    "compiles the grammar of schema %i",
    async (_, schema) => {
      const rules = new GrammarRules();
      const text = finishGrammar(toGrammar(schema, rules).root, rules, "");
      await expect(llama?.createGrammar({ grammar: text })).resolves.toBeDefined();
    },
  );
});
