import { describe, expect, test } from "vitest";
import { literal } from "../../../../../engine/gbnf/gbnf.ts";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { type TextEnd, textUntil, textWithout } from "../../../../../engine/grammar/expressions/text-until.ts";
import { finishGrammar } from "../../../../../engine/grammar/output/constraint-grammar.ts";
import { matcherOf } from "../gbnf-matcher.ts";

function matcher(ends: readonly TextEnd[], mayEnd = true) {
  const rules = new GrammarRules();
  return matcherOf(finishGrammar(textUntil(rules, ends, mayEnd), rules, ""));
}

describe("a text up to the first of some marks", () => {
  const ends = [
    { mark: "<aab>", behind: literal("1") },
    { mark: "ab!", behind: literal("2") },
  ];

  test("continues after the first mark, whatever prefixes overlap", () => {
    const matches = matcher(ends);
    const good = ["", "x", "<aab>1", "<<aab>1", "<aa<aab>1", "ab!2", "<aab!2", "aab!2", "<aab", "\u{1f600}<aab>1"];
    expect(good.filter((text) => !matches(text))).toEqual([]);
    const bad = ["<aab>", "<aab>2", "ab!", "ab!1", "<aab>1x", "<aab!", "x<aab>x<aab>1"];
    expect(bad.filter(matches)).toEqual([]);
  });

  test("may be required to reach a mark", () => {
    const matches = matcher(ends, false);
    expect(["", "x", "<aab", "xab!2"].map(matches)).toEqual([false, false, false, true]);
  });

  test("accepts an `onlyFirst` mark only after white space", () => {
    const matches = matcher([...ends, { mark: "<aa?", behind: literal("3"), onlyFirst: true }]);
    const good = ["<aa?3", " \n\u00a0<aa?3", "x<aa?", "x<aa?ab!2", "<aa<aa?", "<aab>1", " <aab>1", "<aab!2"];
    expect(good.filter((text) => !matches(text))).toEqual([]);
    expect(["<aa?", " <aa?x", "<aab>", "x<aa?3ab!"].filter(matches)).toEqual([]);
  });

  test("leaves a kept mark to the grammar after it", () => {
    const matches = matcher([{ mark: "{", behind: literal('{"a"}'), onlyFirst: true, isKept: true }]);
    expect(['{"a"}', ' {"a"}', "x{", "{", "{x"].map(matches)).toEqual([true, true, true, false, false]);
  });
});

test("a text without a mark is any other text", () => {
  const rules = new GrammarRules();
  const matches = matcherOf(finishGrammar(textWithout(rules, "aab"), rules, ""));
  expect(["", "aaaa", "ab", "aaab", "xaabx", "aab"].map(matches)).toEqual([true, true, true, false, false, false]);
});
