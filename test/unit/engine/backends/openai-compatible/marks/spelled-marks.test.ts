import { describe, expect, test } from "vitest";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { SeededRandom } from "../../../../../support/seeded-random.ts";

const JOINER = "\u2060";
/** Spellings that overlap, contain others, are escaped in JSON, and one of one character. */
const SPELLINGS: readonly string[] = [
  "<|im_end|>",
  "<think>",
  "</think>",
  "im_",
  '<|"|>',
  "ab",
  "abab",
  "<｜end▁of▁sentence｜>",
  "õ",
  "😀x",
];
const marks = new SpelledMarks(SPELLINGS);

function mended(pieces: readonly string[], by = marks): string {
  const mending = by.mending();
  return pieces.map((piece) => mending.push(piece)).join("") + mending.end();
}

describe("a text of a caller", () => {
  test.each([
    ["a <|im_end|> b", `a <${JOINER}|i${JOINER}m_end|> b`],
    ["</think>", `<${JOINER}/think>`],
    ["😀x", `😀${JOINER}x`],
    ["ababab", `a${JOINER}ba${JOINER}ba${JOINER}b`],
    ["<|im end|> <think", "<|im end|> <think"],
    ["õ", "õ"],
    ["", ""],
  ])("%s is sent as %s", (text, broken) => {
    expect(marks.broken(text)).toBe(broken);
    expect(marks.isSpelledIn(broken)).toBe(false);
    expect(mended([broken])).toBe(text);
  });

  test("a caller's text without spellings of marks is unchanged", () => {
    expect(SpelledMarks.none.broken("<|im_end|>")).toBe("<|im_end|>");
    expect(mended([`a${JOINER}b`], SpelledMarks.none)).toBe(`a${JOINER}b`);
  });

  test("a text of a caller is restored in an answer that repeats it, in pieces of any size", () => {
    const chance = new SeededRandom(7);
    const pieces = [JOINER, ...SPELLINGS, "<", "|", "i", "m_end|>", "a", "b", " ", "😀"] as const;
    for (let round = 0; round < 400; round += 1) {
      const text = Array.from({ length: 1 + chance.below(8) }, () => chance.pick(pieces)).join("");
      const broken = marks.broken(text);
      expect(marks.isSpelledIn(broken)).toBe(false);
      const units = [...broken];
      const cut = chance.below(units.length + 1);
      const parts = chance.below(2) ? units : [units.slice(0, cut).join(""), units.slice(cut).join("")];
      // A caller's own use of the invisible character is taken for a broken spelling.
      const isFree = !text.includes(JOINER);
      if (isFree) expect(mended(parts)).toBe(text);
      else expect(mended(parts).replaceAll(JOINER, "")).toBe(text.replaceAll(JOINER, ""));
    }
  });
});

describe("an answer", () => {
  test("an answer keeps an invisible character that breaks no spelling", () => {
    for (const text of [`a${JOINER}c`, `<${JOINER}|im_x`, JOINER, `<${JOINER}`, `<${JOINER}|im_en`])
      expect(mended([...text])).toBe(text);
  });

  test("an answer is held only after such a character", () => {
    const mending = marks.mending();
    expect(mending.push("see <")).toBe("see <");
    expect(mending.push(JOINER)).toBe("");
    expect(mending.push("/thi")).toBe("");
    expect(mending.push("nk> ok")).toBe("/think> ok");
    expect(mending.end()).toBe("");
  });
});

describe("a JSON text", () => {
  test.each([
    ['{"a":"<think>"}', `{"a":"<${JOINER}think>"}`],
    ['{ "<think>" : 1.0 }', `{ "<${JOINER}think>" : 1.0 }`],
    ['{"a":"\\u003cthink>\\n"}', `{"a":"<${JOINER}think>\\n"}`],
    ['{"a":"<|\\"|>"}', `{"a":"<${JOINER}|\\"|>"}`],
    ['{"a":"\\u0041","b":1e400}', '{"a":"\\u0041","b":1e400}'],
    ['{"a":"\\ud800<think>"}', `{"a":"\\ud800<${JOINER}think>"}`],
  ])("%s is sent as %s", (text, broken) => {
    expect(marks.brokenJson(text)).toBe(broken);
    expect(JSON.parse(mended([broken]))).toEqual(JSON.parse(text));
  });

  test("a JSON text that is invalid has no spellings", () => {
    for (const text of ['{"a":"<think>', '["\\x<think>"] <think>', "<think>", '"a" "<think>\\'])
      expect(marks.isSpelledIn(marks.brokenJson(text))).toBe(false);
  });

  test("a JSON text of unterminated quotation marks takes no time", () => {
    const text = `"${'\\"'.repeat(200_000)}`;
    expect(marks.brokenJson(text)).toBe(text);
  });
});
