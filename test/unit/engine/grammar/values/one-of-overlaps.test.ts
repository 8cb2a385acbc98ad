import { expect, test } from "vitest";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { SchemaDocument } from "../../../../../engine/grammar/schema/schema-document.ts";
import { type KnownOverlaps, OneOfOverlaps } from "../../../../../engine/grammar/values/one-of-overlaps.ts";
import { SchemaConverter } from "../../../../../engine/grammar/values/schema-converter.ts";
import { WorkBudget } from "../../../../../engine/work-budget.ts";

/** Returns the overlaps of the alternatives within a work limit; `known` are shared overlaps. */
function overlapsOf(oneOf: readonly object[], work = 100_000, known: KnownOverlaps = new Map()) {
  const document = new SchemaDocument({ oneOf }, "");
  const comparing = { undeclared: "declared", mode: "plain", overlaps: undefined } as const;
  const compare = (rules: GrammarRules) => new SchemaConverter(document, rules, comparing);
  const budget = new WorkBudget(work);
  const overlaps = new OneOfOverlaps(known, budget, compare);
  const { id, schema, pointer } = document.root;
  if (typeof schema !== "object") throw new Error("the schema is an object");
  const found = overlaps.of({ id, schema, pointer }, compare(new GrammarRules(budget)));
  return { found, known, spent: budget.spent };
}

const marked = (kind: string) => ({ type: "object", properties: { kind: { const: kind } }, required: ["kind"] });

test.each([
  ["types", [{ type: "integer" }, { type: "string" }, { type: "number", minimum: 3 }], [[2], [], [0]]],
  [
    "bounds",
    [
      { type: "integer", maximum: 2 },
      { type: "integer", minimum: 3 },
    ],
    [[], []],
  ],
  ["a mark", [marked("a"), marked("b"), marked("a")], [[2], [], [0]]],
])("alternatives are distinguished by %s", (_what, oneOf, expected) => {
  expect(overlapsOf(oneOf).found).toEqual(expected);
});

test("more than 32 alternatives are not compared, and count as overlapping", () => {
  const apart = (count: number) => Array.from({ length: count }, (_, at) => ({ const: at }));
  expect(overlapsOf(apart(32)).found.every((others) => others.length === 0)).toBe(true);
  expect(overlapsOf(apart(33)).found.every((others) => others.length === 32)).toBe(true);
});

test("another conversion reuses compared overlaps, and pairs without comparison count as overlapping", () => {
  const apart = [{ type: "integer" }, { type: "string" }];
  const rough = overlapsOf(apart, 20);
  expect([rough.found, rough.known.size]).toEqual([[[1], [0]], 0]);
  const close = overlapsOf(apart, 100_000, rough.known);
  expect([close.found, close.known.size]).toEqual([[[], []], 1]);
  expect(close.spent).toBeGreaterThan(0);
  expect(overlapsOf(apart, 0, close.known)).toMatchObject({ found: [[], []], spent: 0 });
});
