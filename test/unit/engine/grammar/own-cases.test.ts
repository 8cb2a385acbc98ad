import { expect, test } from "vitest";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { SchemaValidator } from "../../../../engine/grammar/validation/schema-validator.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { independentValidator } from "../../../support/schemas/independent-validator.ts";
import { ownCases } from "../../../support/schemas/own-cases.ts";
import { sizeOf } from "../../../support/size.ts";
import { matcherOf } from "./gbnf-matcher.ts";

const CASES = ownCases(500);
/** Formats of which our validator allows more texts than a grammar. */
const LENIENT = /"format":"(?:ipv6|duration)"/;
/** Creating an independent validator takes long. */
const LOOKED_AT = sizeOf({ quick: 15, exhaustive: CASES.length });

test("an independent validator and ours agree with the cases", () => {
  const wrong: string[] = [];
  for (const [at, { schema, tests }] of CASES.entries()) {
    const isAllowed = at < LOOKED_AT ? independentValidator(JSON.parse(schema)) : undefined;
    const ours = new SchemaValidator(JSON.parse(schema));
    for (const { text, isValid } of tests) {
      const value = JSON.parse(text);
      const isOurs = ours.check(value) === "allowed";
      const isRight = isOurs === isValid || (isOurs && LENIENT.test(schema));
      if (!isRight || (isAllowed?.(value) ?? isValid) !== isValid)
        wrong.push(`${schema}: ${text} is ${isValid ? "" : "not "}valid`);
    }
  }
  expect(wrong).toEqual([]);
});

test("the grammars of 500 schemas of all kinds match exactly their valid values", () => {
  const wrong: string[] = [];
  for (const { schema, tests } of CASES) {
    const rules = new GrammarRules();
    const { root, unenforced } = toGrammar(JSON.parse(schema), rules);
    expect(unenforced, schema).toEqual([]);
    const matches = matcherOf(finishGrammar(root, rules, ""));
    for (const { text, isValid } of tests)
      if (matches(text) !== isValid) wrong.push(`${schema}: ${text} is ${isValid ? "" : "not "}valid`);
  }
  expect(wrong).toEqual([]);
});
