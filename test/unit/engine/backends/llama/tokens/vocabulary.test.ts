import type { Token } from "node-llama-cpp";
import { expect, test } from "vitest";
import { JsonEnds } from "../../../../../../engine/backends/llama/tokens/json-ends.ts";
import { markTokens, withoutTokens } from "../../../../../../engine/backends/llama/tokens/vocabulary.ts";
import { ControlTokens } from "../../../../../../engine/conversation/control-tokens.ts";
import { loadProfile } from "../../../../../../engine/profiles/profile.ts";

const SPELLINGS = ["<|im_end|>", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "｜DSML｜"];
const vocabulary = {
  size: SPELLINGS.length,
  controlTokens: new ControlTokens(SPELLINGS.map((text) => ({ text, stripsLeft: false }))),
  cutsAtWords: true,
  hiddenTokens: [],
  longestTokenBytes: undefined,
  jsonEnds: new JsonEnds<Token>(),
  bosText: "",
  eosText: "<|im_end|>",
  markerToken: (spelling: string) => {
    const id = SPELLINGS.indexOf(spelling);
    return id < 0 ? undefined : (id as Token);
  },
};

test("the tokens in a family's markers are those whose text is kept", () => {
  const { reasoning, toolCall } = loadProfile("magistral");
  if (!reasoning || !toolCall) throw new Error("the profile has no marks");
  expect([...markTokens({ reasoning, toolCall }, vocabulary)].sort()).toEqual([1, 2, 3]);
  expect(markTokens({}, vocabulary).size).toBe(0);
});

test.each([
  ["<｜DSML｜invoke>", ["<", "invoke>"]],
  ["[ARGS]", []],
  ["<tool_call>", ["<tool_call>"]],
  ["", []],
])("the rest of %j without its tokens is %j", (mark, parts) => {
  expect(withoutTokens(mark, vocabulary)).toEqual(parts);
});
