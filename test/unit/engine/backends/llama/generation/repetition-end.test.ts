import { describe, expect, test } from "vitest";
import { RepetitionEnd } from "../../../../../../engine/backends/llama/generation/repetition-end.ts";
import { JsonEnds } from "../../../../../../engine/backends/llama/tokens/json-ends.ts";
import { JsonScanner } from "../../../../../../engine/tool-calls/readers/json-scanner.ts";

/** The tokens of a model, by their texts. */
const TOKENS = ["[", "]", "{", "}", ",", ":", '"', '",', '"]', '"}', '"}]', "]}", "a", "b", "1", "2", " ", '","', '":'];

const ends = new JsonEnds<string>();
for (const token of TOKENS) ends.add(token, token);

const times = (count: number, ...part: string[]) => Array.from({ length: count }, () => part).flat();

/** Returns the tokens due after some tokens of JSON. */
function dueBehind(...tokens: readonly string[]): readonly string[] {
  const repetition = new RepetitionEnd(ends);
  const json = new JsonScanner({ root: "any" });
  for (const token of tokens) {
    json.push(token);
    repetition.take(token, json);
  }
  return repetition.due;
}

const QUOTES = ['"', '",', '"]', '"}', '"}]', '","', '":'];
const LAST_QUOTES = ['"', '"]', '"}', '"}]'];
const BRACKETS = ["]", "}", "]}"];

describe("after endless repetition in JSON", () => {
  test.each<[what: string, tokens: readonly string[], due: readonly string[]]>([
    ["a string", ["{", '"', "a", '":', '"', ...times(16, "a")], QUOTES],
    ["a string, not often enough", ["{", '"', "a", '":', '"', ...times(15, "a")], []],
    ["a string of a list", ["[", '"', ...times(8, "a", "b")], QUOTES],
    ["the strings of a list, at the end of one", ["[", '"', ...times(9, "a", '","'), "a"], LAST_QUOTES],
    ["the strings of a list, at the start of one", ["[", '"', ...times(9, "a", '","')], []],
    ["the strings of a list, after the last", ["[", '"', ...times(9, "a", '","'), "a", '"'], BRACKETS],
    ["the numbers of a list", ["[", ...times(9, "1", ","), "1"], BRACKETS],
    ["the numbers of a list, before the next", ["[", ...times(9, "1", ",")], []],
    ["the objects of a list", ["[", ...times(5, "{", '"', "a", '":', "1", "}", ",")], []],
    [
      "the objects of a list, in one",
      ["[", ...times(5, "{", '"', "a", '":', "1", "}", ","), "{", '"', "a", '":', "1"],
      BRACKETS,
    ],
    ["the members of an object", ["{", ...times(5, '"', "a", '":', "1", ","), '"', "b", '":', "1"], BRACKETS],
    ["nested lists without end", times(16, "["), BRACKETS],
    [
      "items that differ",
      ["[", ...[1, 2, 3, 4, 5, 6, 7, 8].flatMap((digits) => [...times(digits, "1"), ","]), "2"],
      [],
    ],
  ])("%s", (_what, tokens, due) => {
    expect(dueBehind(...tokens)).toEqual(due);
  });

  test("the end of a list also closes everything that its last item contains", () => {
    const items = times(5, "{", '"', "a", '":', "1", "}", ",");
    // The item must have one more member.
    expect(dueBehind("[", ...items, "{", '"', "a", '":', "1", ",", '"', "b", '":')).toEqual([]);
    expect(dueBehind("[", ...items, "{", '"', "a", '":', "1", ",", '"', "b", '":', "2")).toEqual(BRACKETS);
  });

  test("tokens after the list are not constrained", () => {
    const list = ["{", '"', "a", '":', "[", ...times(9, "1", ","), "1", "]"];
    expect(dueBehind(...list)).toEqual([]);
    expect(dueBehind(...list, ",", '"', "b", '":', "[", "1")).toEqual([]);
  });
});

test("repetition outside of JSON, or in another value, is ignored", () => {
  const repetition = new RepetitionEnd(ends);
  for (const token of times(20, "1", ",")) repetition.take(token, undefined);
  expect(repetition.due).toEqual([]);
  for (const part of times(4, "[")) {
    const json = new JsonScanner({ root: "any" });
    for (const token of [part, ...times(3, "1", ","), "1"]) {
      json.push(token);
      repetition.take(token, json);
    }
    expect(repetition.due).toEqual([]);
  }
});
