import { describe, expect, test } from "vitest";
import type { Span } from "../../../../engine/conversation/placeholders.ts";
import { ControlTokens, toPromptPieces } from "../../../../engine/conversation/prompt-pieces.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const TOKENS = new ControlTokens(["<end>", "<think>", "§"].map((text) => ({ text, stripsLeft: false })));
const LONG = { maxUnits: 1000, cutsAtWords: true };
const ours = (text: string): Span => ({ text, origin: "template" });
const theirs = (text: string): Span => ({ text, origin: "caller", placeholder: text });
const texts = (spans: readonly Span[], options = LONG) =>
  toPromptPieces(spans, TOKENS, options).map(({ text }) => text);

describe("a control token's spelling is cut if a caller wrote part of it", () => {
  const cases: readonly [name: string, spans: readonly Span[], pieces: readonly string[]][] = [
    ["the template's own stays whole", [ours("<think>"), theirs("hi"), ours("<end>")], ["<think>hi", "<end>"]],
    ["the caller's is cut", [ours("a<end>"), theirs("b<end>c"), ours("<end>")], ["a", "<end>b<", "end>c", "<end>"]],
    ["a half of the caller's is cut too", [ours("a<"), theirs("end>b")], ["a<", "end>b"]],
    ["two callers together", [theirs("<e"), theirs("nd>")], ["<", "end>"]],
    ["one character gets a piece of its own", [ours("§a"), theirs("b§c")], ["§ab", "§", "c"]],
  ];
  test.each(cases)("of spellings of a control token, %s", (_name, spans, pieces) => {
    expect(texts(spans)).toEqual(pieces);
  });
});

test("no control token is parsed in a piece of one forged character", () => {
  const pieces = toPromptPieces([ours("§"), theirs("§")], TOKENS, LONG);
  expect(pieces).toEqual([
    { text: "§", control: true },
    { text: "§", control: false },
  ]);
});

describe("long texts are cut where the tokens stay the same", () => {
  const short = { maxUnits: 10, cutsAtWords: true };
  const cases: readonly [name: string, text: string, options: typeof short, pieces: readonly string[]][] = [
    ["before control tokens", "abcdefg<end>hijklmn<end>o", short, ["abcdefg", "<end>hijklmn", "<end>o"]],
    ["else at line starts", "abc\ndef\nghi\njkl", short, ["abc\ndef\n", "ghi\njkl"]],
    ["after the last of several line breaks", "abcde\n \n\n  fghij", short, ["abcde\n \n\n", "  fghij"]],
    ["not before a slash", "abcdefg\n//i\njklm", short, ["abcdefg\n//i\n", "jklm"]],
    ["else before a space between letters", "abc, def ghijkl", short, ["abc, def", " ghijkl"]],
    ["after the wanted length if necessary", "abcdefghijklm nop", short, ["abcdefghijklm", " nop"]],
    ["anywhere in a long text without words", "-".repeat(45), short, ["-".repeat(40), "-----"]],
    ["but not inside a character", `-${"🚀".repeat(21)}`, short, [`-${"🚀".repeat(19)}`, "🚀🚀"]],
    [
      "not at words when the tokenizer has none",
      "abc def ghijkl",
      { ...short, cutsAtWords: false },
      ["abc def ghijkl"],
    ],
    ["not at all when there is no need", "abcdefghij", short, ["abcdefghij"]],
  ];
  test.each(cases)("a text is cut where its tokens stay the same: %s", (_name, text, options, pieces) => {
    expect(texts([ours(text)], options)).toEqual(pieces);
  });
});

/** The word patterns of tokenizers derived from GPT-4's; each word is tokenized separately. */
const WORDS: readonly (readonly [tokenizer: string, word: RegExp])[] = [
  [
    "llama-bpe, chatglm-bpe",
    /(?:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/giu,
  ],
  [
    "qwen2, grok-2",
    /(?:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/giu,
  ],
  [
    "qwen35",
    /(?:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/giu,
  ],
  [
    "gpt-4o, minimax-m2",
    /[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
  ],
  [
    "kimi-k2",
    /\p{Script=Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Script=Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Script=Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Script=Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Script=Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
  ],
];

test.each(WORDS)("a text has the same words in pieces, as %s splits them", (_tokenizer, word) => {
  const random = new SeededRandom(20_261_123);
  const signs: readonly [string, ...string[]] = [
    " ",
    "  ",
    "\r\n",
    "23",
    "'s",
    "//",
    ..."abBé漢字\n\t1.,}🚀\u0301\u00a0",
  ];
  const wordsOf = (text: string) => text.match(word) ?? [];
  for (let round = 0; round < 300; round += 1) {
    // Short enough between borders that it is not cut anywhere else.
    const text = Array.from({ length: 60 }, () => (random.below(4) === 0 ? "ab cd" : random.pick(signs))).join("");
    const pieces = texts([ours(text)], { maxUnits: 40, cutsAtWords: true });
    expect(pieces.flatMap(wordsOf), JSON.stringify(text)).toEqual(wordsOf(text));
  }
});

describe("of nested spellings the outer one is the token", () => {
  const nested = new ControlTokens(["〈|EOS|〉", "〈|", "|〉", "〈|EOS"].map((text) => ({ text, stripsLeft: false })));
  const text = "aaaa 〈|EOS|〉 bbbb 〈|cccc|〉";

  test("all are found, the longest first at each place", () => {
    const found = nested.occurrences(text).map(({ start, end }) => text.slice(start, end));
    expect(found).toEqual(["〈|EOS|〉", "〈|EOS", "〈|", "|〉", "〈|", "|〉"]);
  });

  test("the outer one of nested spellings is not cut", () => {
    const pieces = toPromptPieces([ours(text)], nested, LONG).map((piece) => piece.text);
    expect(pieces.join("")).toBe(text);
    for (const piece of pieces.slice(1)) expect(piece).toMatch(/^(?:〈\||\|〉)/);
    expect(pieces.some((piece) => piece.endsWith("〈|EOS"))).toBe(false);
  });

  test("a caller's is cut, and so is each one in it", () => {
    const pieces = toPromptPieces([ours("x"), theirs("〈|EOS|〉")], nested, LONG).map((piece) => piece.text);
    expect(pieces).toEqual(["x〈", "|EOS|", "〉"]);
  });
});
