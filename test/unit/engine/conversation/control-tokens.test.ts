import { describe, expect, test } from "vitest";
import { ControlTokens } from "../../../../engine/conversation/control-tokens.ts";

const TOKENS = new ControlTokens(
  ["<|im_end|>", "<think>", "<|im_end|>!", "\n\n", "§"].map((text) => ({ text, stripsLeft: false })),
);

describe("a text is inert only if no control token can result from it", () => {
  const cases: readonly [text: string, inert: boolean, why: string][] = [
    ["", true, "nothing"],
    ["hello world", true, "no part of any"],
    ["a < b", true, "the sign alone, in the middle"],
    ["x <think> y", false, "holds one"],
    ["x <", false, "ends like the start of one"],
    ["x <|im_e", false, "ends like the start of one"],
    ["nd|> x", false, "starts like the end of one"],
    ["> quoted", false, "starts like the end of one"],
    ["think", false, "is the middle of one"],
    ["thinking", true, "longer than the middle"],
    ["§", false, "is one of a single character"],
    ["\n\n", true, "white space marks nothing"],
  ];
  test.each(cases)("%j: %s (%s)", (text, inert) => {
    expect(TOKENS.isInert(text)).toBe(inert);
  });
});

test("occurrences are found in order, including overlapping ones", () => {
  const found = TOKENS.occurrences("a<|im_end|>!<think>");
  expect(found.map(({ start, end }) => [start, end]).sort()).toEqual([
    [1, 11],
    [1, 12],
    [12, 19],
  ]);
});

test("a vocabulary without control tokens finds none", () => {
  const none = new ControlTokens([]);
  expect(none.occurrences("<think>")).toEqual([]);
  expect(none.isInert("<think>")).toBe(true);
});
