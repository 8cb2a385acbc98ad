import { describe, expect, test } from "vitest";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { SchemaValidator } from "../../../../engine/grammar/validation/schema-validator.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { matcherOf } from "./gbnf-matcher.ts";

const LETTERS = [..."abc1-.\n\u00e9\u{1f600}"];

function grammarOf(pattern: string) {
  const rules = new GrammarRules();
  const { root, unenforced } = toGrammar({ type: "string", pattern }, rules);
  return { text: finishGrammar(root, rules, ""), unenforced };
}

describe("grammar and validator agree with JavaScript's own engine about a pattern", () => {
  test.each([
    ...["", "a", "abc|ab|a", "a*", "(a|b)*c", "((a|b)*(a|b)*)*c", "(a*)*", "(a?b?){2,3}", "[a-c]{2,}1", "[^a]+a?"],
    ...["(?:a|ab)(?:c|bc)", ".*a.{3}", ".*", "a.*", "[\\s\\S]*b.*", "(a|b|)(c|)", "\\w+(?:[-.]\\w+)*", "a{0}b", "[]|a"],
  ])("grammar, validator and JavaScript agree about the pattern %j", (inner) => {
    const pattern = `^(?:${inner})$`;
    const random = new SeededRandom(7);
    const { text: grammar, unenforced } = grammarOf(pattern);
    const matches = matcherOf(grammar);
    const validator = new SchemaValidator({ pattern });
    const expression = new RegExp(pattern, "u");
    expect(unenforced).toEqual([]);
    for (let round = 0; round < 300; round += 1) {
      const text = Array.from({ length: random.below(7) }, () => LETTERS[random.below(LETTERS.length)]).join("");
      const isRight = expression.test(text);
      const found = [matches(JSON.stringify(text)), validator.check(text) === "allowed"];
      expect([text, ...found]).toEqual([text, isRight, isRight]);
    }
  });
});

test("a pattern with very many readings has a small grammar", () => {
  expect(grammarOf(`^${"(a|b)*".repeat(60)}c$`).text.length).toBeLessThan(500);
});

test.each(["(a?){900}a{900}", "(a|b){3000}"])(
  "a pattern whose automaton is too large is not enforced: %j",
  (pattern) => {
    expect(grammarOf(`^(?:${pattern})$`).unenforced).toEqual(["#/pattern"]);
  },
);
