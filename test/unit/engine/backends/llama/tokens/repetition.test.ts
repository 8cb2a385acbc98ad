import { expect, test } from "vitest";
import { repeatedTokens } from "../../../../../../engine/backends/llama/tokens/repetition.ts";

const times = (count: number, ...part: number[]) => Array.from({ length: count }, () => part).flat();
const upTo = (length: number) => Array.from({ length }, (_, at) => at + 100);

test.each([
  ["one token", [0, 7, 8, ...times(16, 1)], [1]],
  ["one token, not often enough", [0, 7, 8, ...times(15, 1)], []],
  ["three tokens", [7, ...times(6, 1, 2, 3)], [1, 2, 3]],
  ["three tokens, cut in their middle", [7, ...times(6, 1, 2, 3), 1, 2], [3, 1, 2]],
  ["48 tokens four times", times(4, ...upTo(48)), upTo(48)],
  ["48 tokens three times", times(3, ...upTo(48)), []],
  ["49 tokens", times(9, ...upTo(49)), []],
  ["no token twice", upTo(200), []],
  ["another token after them", [...times(30, 1), 2], []],
  ["equal tokens but for one in the middle", [...times(8, 1), 2, ...times(8, 1)], []],
  ["nothing", [], []],
])("repeated tokens: %s", (_, tokens, wanted) => {
  expect(repeatedTokens(tokens)).toEqual(wanted);
});
