import { expect, test } from "vitest";
import { EngineError } from "../../../../../engine/errors.ts";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../../engine/grammar/output/constraint-grammar.ts";
import { toGrammar } from "../../../../../engine/grammar/values/json-schema.ts";
import { independentValidator } from "../../../../support/schemas/independent-validator.ts";
import { ownCases } from "../../../../support/schemas/own-cases.ts";
import { sizeOf } from "../../../../support/size.ts";
import { matcherOf } from "../gbnf-matcher.ts";

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
