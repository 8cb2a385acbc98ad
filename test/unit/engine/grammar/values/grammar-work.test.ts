import { describe, expect, test } from "vitest";
import { EngineError } from "../../../../../engine/errors.ts";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { SchemaValidator } from "../../../../../engine/grammar/validation/schema-validator.ts";
import { toGrammar } from "../../../../../engine/grammar/values/json-schema.ts";
import { WorkBudget } from "../../../../../engine/work-budget.ts";

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

describe("a schema is charged for comparisons, not for its length", () => {
  test("each pair of alternatives of a oneOf", () => {
    const oneOf = (count: number) => ({ oneOf: times(count, () => ({})) });
    expect(workOf(oneOf(200))).toBeGreaterThan((200 * 200) / 8);
    expect(workOf(oneOf(200))).toBeGreaterThan(4 * workOf(oneOf(50)));
  });

  test("formulas on the presence of members, by their size at each member", () => {
    const formula = (count: number) => ({
      type: "object",
      properties: Object.fromEntries(times(count, (at) => [`p${at}`, {}])),
      dependentRequired: Object.fromEntries(times(count, (at) => [`p${at}`, [`p${(at + 3) % count}`]])),
    });
    const long = (count: number) =>
      JSON.parse(JSON.stringify(formula(count)).replaceAll('"p', `"${"p".repeat(2_000)}`));
    expect(workOf(long(6))).toBeGreaterThan(2 * workOf(formula(6)));
  });

  test("a range of numbers by the digits of its bounds, once for all its uses", () => {
    const ranges = (count: number, bounds: (at: number) => object) => ({
      type: "object",
      properties: Object.fromEntries(times(count, (at) => [`p${at}`, { type: "integer", ...bounds(at) }])),
    });
    const short = workOf(ranges(50, (at) => ({ minimum: at })));
    const long = workOf(ranges(50, (at) => ({ minimum: -1e17 - 32 * at, maximum: 1e17 + 32 * at })));
    expect(long).toBeGreaterThan(2 * short);
    expect(workOf(ranges(50, () => ({ minimum: -1e17, maximum: 1e17 })))).toBeLessThan(long / 2);
  });

  test("lengths share counting blocks, and all lengths beyond any answer are equal", () => {
    const lengths = (count: number, from: number) => ({
      type: "object",
      properties: Object.fromEntries(times(count, (at) => [`p${at}`, { type: "string", minLength: from + at }])),
    });
    // A distinct length costs at most one rule beside its member.
    const free = workOf(lengths(100, 0)) - workOf(lengths(50, 0));
    expect(workOf(lengths(100, 1e6)) - workOf(lengths(50, 1e6))).toBeLessThan(free + 50 * 9);
    expect(workOf(lengths(100, 1e15))).toBeLessThan(workOf(lengths(100, 1e6)));
  });

  test("a repeated part of a pattern for each copy, even if it matches nothing", () => {
    const repeated = (count: number) => workOf({ pattern: `^((){${count}}a|b){1,2}a$` });
    expect(repeated(9_000)).toBeGreaterThan(repeated(90) + 8_000);
    // The ten thousand million copies are not written.
    expect(workOf({ pattern: "^(((){9999}){9999}){99}$" })).toBeLessThan(70_000);
  });

  test("a value of many parts costs more than a text of the same length", () => {
    const parts = times(1_000, () => 7);
    const text = "x".repeat(JSON.stringify(parts).length);
    expect(workOf({ const: parts })).toBeGreaterThan(2 * workOf({ const: text }));
  });

  test("each value of a list, however short", () => {
    expect(workOf({ enum: times(4_000, String) }) - workOf({ enum: times(2_000, String) })).toBeGreaterThan(2 * 2_000);
  });
});

test.each(["anyOf", "oneOf"])("a list of too many alternatives is not visited: %s", (keyword) => {
  const list = (count: number) => ({ properties: { a: { [keyword]: times(count, (at) => ({ const: at })) } } });
  expect(() => toGrammar(list(256), new GrammarRules())).not.toThrow();
  const facts = expect.objectContaining({ pointer: `/properties/a/${keyword}`, fault: "costly" });
  const refused = { facts, reason: "INVALID_SCHEMA" };
  expect(() => toGrammar(list(257), new GrammarRules())).toThrowError(expect.objectContaining(refused));
  // The result is the cost of the first check; later steps did not multiply it.
  expect(workOf(list(4_000))).toBeLessThan(4 * 4_000);
});

test("a schema with only one applicable mode may use all of the work", () => {
  const properties = Object.fromEntries(times(300, (at) => [`p${at}`, { type: "integer", minimum: at }]));
  const work = workOf({ properties });
  const within = (schema: object) => () => toGrammar(schema, new GrammarRules(new WorkBudget(1.05 * work)));
  expect(within({ properties })).not.toThrow();
  // With a cheaper mode left, an attempt leaves some work for it.
  const turned = { ...properties, p0: { not: { type: "string" } } };
  expect(within({ properties: turned })).toThrowError(
    expect.objectContaining({ facts: expect.objectContaining({ fault: "costly" }) }),
  );
});

test("counting the members of an object is charged for each schema with a bound", () => {
  const value = Object.fromEntries(times(3_000, (at) => [`m${at}`, at]));
  const budget = new WorkBudget(Number.POSITIVE_INFINITY);
  const schema = { allOf: times(20, () => ({ minProperties: 1 })) };
  expect(new SchemaValidator(schema).check(value, budget)).toBe("allowed");
  expect(budget.spent).toBeGreaterThan(20 * 3_000);
});
