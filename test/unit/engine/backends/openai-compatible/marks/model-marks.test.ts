import { expect, test } from "vitest";
import { spellingsInFile } from "../../../../../../engine/backends/openai-compatible/marks/model-marks.ts";

test("a tokenizer.json has the spellings of control tokens and of those that are matched like them", () => {
  const tokens = [{ id: 1, content: "<|im_end|>", special: true }, { id: 2, content: "<think>", special: false }, {}];
  expect(spellingsInFile(JSON.stringify({ added_tokens: tokens }))).toEqual(["<|im_end|>", "<think>"]);
});

test.each(["", "[]", "{}", '{"added_tokens":{}}'])("%s is none", (text) => {
  expect(spellingsInFile(text)).toBeUndefined();
});
