import { expect, test } from "vitest";
import { EngineError } from "../../../../engine/errors.ts";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { SchemaValidator } from "../../../../engine/grammar/validation/schema-validator.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { independentValidator } from "../../../support/schemas/independent-validator.ts";
import { ownCases } from "../../../support/schemas/own-cases.ts";
import { randomSchema } from "../../../support/schemas/random-schema.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { matcherOf } from "./gbnf-matcher.ts";
import { samplerOf } from "./gbnf-sampler.ts";

const CASES = ownCases(500);
/** Creating an independent validator takes long. */
const LOOKED_AT = sizeOf({ quick: 30, exhaustive: CASES.length });

test("an independent validator agrees with the cases", () => {
  const wrong: string[] = [];
  for (const { schema, tests } of CASES.slice(0, LOOKED_AT)) {
    const isAllowed = independentValidator(JSON.parse(schema));
    for (const { text, isValid } of tests)
      if (isAllowed(JSON.parse(text)) !== isValid) wrong.push(`${schema}: ${text} is ${isValid ? "" : "not "}valid`);
  }
  expect(wrong).toEqual([]);
});

test("the grammars of 500 schemas of all kinds match exactly their valid values", () => {
  const counts = { right: 0, refused: 0, "valid refused": 0, "invalid let through": 0 };
  const unpromised: string[] = [];
  for (const { schema, tests } of CASES) {
    const found = grammarOf(schema);
    const wrong = tests.filter(({ text, isValid }) => found && found.allows(text) !== isValid).at(-1);
    if (!found?.isPromised) unpromised.push(schema);
    counts[!found ? "refused" : !wrong ? "right" : wrong.isValid ? "valid refused" : "invalid let through"] += 1;
  }
  expect(unpromised).toEqual([]);
  expect(counts).toEqual({ right: 500, refused: 0, "valid refused": 0, "invalid let through": 0 });
});

/** Returns the matcher of a schema's grammar, and whether it enforces all keywords; undefined for a refused schema. */
function grammarOf(schema: string) {
  const rules = new GrammarRules();
  try {
    const { root, unenforced } = toGrammar(JSON.parse(schema), rules);
    return { allows: matcherOf(finishGrammar(root, rules, "")), isPromised: unenforced.length === 0 };
  } catch (error) {
    if (error instanceof EngineError) return undefined;
    throw error;
  }
}

const SCHEMAS = sizeOf({ quick: 40, exhaustive: 150 });
const TEXTS = 6;

/** Returns slightly damaged copies of a value. */
function damaged(value: unknown): readonly unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const keys = Object.keys(value);
  const without = keys.map((key) => Object.fromEntries(Object.entries(value).filter(([other]) => other !== key)));
  return [{ ...value, extra: { deep: [] } }, ...without, ...keys.map((key) => ({ ...value, [key]: { odd: [{}] } }))];
}

test(`random texts of the grammars of ${SCHEMAS} schemas satisfy an independent validator and ours`, () => {
  const wrong: string[] = [];
  let refused = 0;
  let allowed = 0;
  for (let seed = 0; seed < SCHEMAS; seed += 1) {
    const random = new SeededRandom(seed);
    const schema = randomSchema(random);
    const rules = new GrammarRules();
    const { root, unenforced } = toGrammar(schema, rules);
    expect(unenforced, `seed ${seed}`).toEqual([]);
    const write = samplerOf(finishGrammar(root, rules, ""));
    const isAllowed = independentValidator(schema);
    const ours = new SchemaValidator(schema);
    for (let i = 0; i < TEXTS; i += 1) {
      const text = write(random);
      const value = JSON.parse(text);
      if (!isAllowed(value) || ours.check(value) !== "allowed") wrong.push(`seed ${seed}: ${text}`);
      for (const other of damaged(value)) {
        const theirs = isAllowed(other);
        if (theirs !== (ours.check(JSON.parse(JSON.stringify(other))) === "allowed"))
          wrong.push(`seed ${seed}: ${JSON.stringify(other)}`);
        if (theirs) allowed += 1;
        else refused += 1;
      }
    }
  }
  expect(wrong).toEqual([]);
  // Both outcomes must be frequent for the comparison to be meaningful.
  expect(Math.min(refused, allowed)).toBeGreaterThan(SCHEMAS);
}, 60_000);
