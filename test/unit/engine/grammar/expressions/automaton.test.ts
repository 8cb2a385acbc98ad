import { describe, expect, test } from "vitest";
import { type AutomatonState, automatonOf } from "../../../../../engine/grammar/expressions/automaton.ts";
import { parseExpression, UnsupportedPattern } from "../../../../../engine/grammar/expressions/regular-expression.ts";
import { WorkBudget } from "../../../../../engine/work-budget.ts";
import { SeededRandom } from "../../../../support/seeded-random.ts";

const unbounded = () => new WorkBudget(Number.POSITIVE_INFINITY);
const LETTERS = [..."abc1-.\n\u00e9\u{1f600}"];

function matches(states: readonly AutomatonState[], text: string): boolean {
  let at = states[0];
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    const ways = at?.steps.filter(({ ranges }) => ranges.some(([low, high]) => low <= code && code <= high)) ?? [];
    expect(ways.length).toBeLessThan(2);
    at = ways[0] && states[ways[0].to];
    if (at === undefined) return false;
  }
  return at?.accepts ?? false;
}

describe("automatonOf", () => {
  test.each([
    "",
    "a",
    "abc|ab|a",
    "a*",
    "(a|b)*c",
    "((a|b)*(a|b)*)*c",
    "(a*)*",
    "(a?b?){2,3}",
    "[a-c]{2,}1",
    "(?:a|ab)(?:c|bc)",
    "[^a]+a?",
    ".*a.{3}",
    ".*",
    "a.*",
    "[\\s\\S]*b.*",
    "(a|b|)(c|)",
    "\\w+(?:[-.]\\w+)*",
    "a{0}b",
    "[]|a",
  ])("matches the same texts as %j, each with one reading", (pattern) => {
    const chance = new SeededRandom(7);
    const states = automatonOf(parseExpression(pattern), unbounded());
    const expression = new RegExp(`^(?:${pattern})$`, "u");
    for (let round = 0; round < 500; round += 1) {
      const text = Array.from({ length: chance.below(7) }, () => LETTERS[chance.below(LETTERS.length)]).join("");
      expect([text, matches(states, text)]).toEqual([text, expression.test(text)]);
    }
  });

  test("stays small for an expression with very many readings", () => {
    expect(automatonOf(parseExpression(`${"(a|b)*".repeat(60)}c`), unbounded())).toHaveLength(2);
    expect(automatonOf(parseExpression(`${"(".repeat(12)}a${"*)".repeat(12)}`), unbounded())).toHaveLength(1);
  });

  test.each([".*a.{20}", "(a?){900}a{900}", "(.?a){4000}", "[a-c]{5000}", "(a|b){3000}"])(
    "rejects %j, whose automaton is too large",
    (pattern) => {
      expect(() => automatonOf(parseExpression(pattern), unbounded())).toThrow(UnsupportedPattern);
    },
  );
});
