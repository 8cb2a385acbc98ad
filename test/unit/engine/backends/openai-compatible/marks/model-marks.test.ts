import { expect, test } from "vitest";
import { spellingsInFile } from "../../../../../../engine/backends/openai-compatible/marks/model-marks.ts";

test("a tokenizer.json yields the spellings of special tokens and of tokens matched like them", () => {
  const tokens = [{ id: 1, content: "<|im_end|>", special: true }, { id: 2, content: "<think>", special: false }, {}];
  expect(spellingsInFile(JSON.stringify({ added_tokens: tokens }))).toEqual(["<|im_end|>", "<think>"]);
});

test.each(["", "[]", "{}", '{"added_tokens":{}}'])("%s is not a tokenizer.json", (text) => {
  expect(spellingsInFile(text)).toBeUndefined();
});
