import { expect, test } from "vitest";
import { matchesExpression } from "../../../../../engine/grammar/expressions/expression-matcher.ts";
import { parseExpression } from "../../../../../engine/grammar/expressions/regular-expression.ts";
import { SeededRandom } from "../../../../support/seeded-random.ts";

const always = () => true;

test("an expression matches the same texts as JavaScript's own engine", () => {
  const patterns = [
    "a",
    "^a?b*$",
    "(ab|a)c",
    "^(?:a|b){2,3}$",
    "[^a]$",
    "a.c",
    "^$",
    "(a|^b)c?$",
    "(a*b?){2}c",
    "b{0}c",
    "",
  ];
  const random = new SeededRandom(7);
  for (const pattern of patterns) {
    const expression = parseExpression(pattern);
    for (let round = 0; round < 200; round += 1) {
      const text = Array.from({ length: random.below(7) }, () => random.pick(["a", "b", "c", "\n"])).join("");
      const found = matchesExpression(expression, text, always);
      expect(found, `${pattern} in ${JSON.stringify(text)}`).toBe(new RegExp(pattern, "u").test(text));
    }
  }
});

test("a surrogate pair is one character", () => {
  expect(matchesExpression(parseExpression("^.{2}$"), "😀é", always)).toBe(true);
});

test("the result is undefined beyond the budget, and the work grows with the text only", () => {
  const expression = parseExpression("^(a|a|aa)*$");
  const workFor = (length: number) => {
    let work = 0;
    matchesExpression(expression, `${"a".repeat(length)}!`, (places) => {
      work += places;
      return true;
    });
    return work;
  };
  expect(workFor(400)).toBeLessThan(3 * workFor(200));
  expect(matchesExpression(expression, "a".repeat(99), () => false)).toBeUndefined();
});
