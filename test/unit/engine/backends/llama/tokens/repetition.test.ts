import { describe, expect, test } from "vitest";
import { endsInRepetition } from "../../../../../../engine/backends/llama/tokens/repetition.ts";

const NONE: ReadonlySet<number> = new Set();
const QUOTE = 0;
const times = (count: number, ...part: number[]) => Array.from({ length: count }, () => part).flat();
const upTo = (length: number) => Array.from({ length }, (_, at) => at + 100);

describe("tokens that come over and over", () => {
  test.each([
    ["one token", [QUOTE, 7, 8, ...times(16, 1)], true],
    ["one token, not often enough", [QUOTE, 7, 8, ...times(15, 1)], false],
    ["three tokens", [7, ...times(6, 1, 2, 3)], true],
    ["three tokens, cut in their middle", [7, ...times(6, 1, 2, 3), 1, 2], true],
    ["sixteen tokens four times", times(4, ...upTo(16)), true],
    ["sixteen tokens three times", times(3, ...upTo(16)), false],
    ["seventeen tokens", times(9, ...upTo(17)), false],
    ["no token twice", upTo(200), false],
    ["something else behind them", [...times(30, 1), 2], false],
    ["the same, but for one in the middle", [...times(8, 1), 2, ...times(8, 1)], false],
    ["nothing", [], false],
  ])("%s", (_, tokens, wanted) => {
    expect(endsInRepetition(tokens, NONE)).toBe(wanted);
  });

  test("with a boundary among them are several texts", () => {
    expect(endsInRepetition(times(10, QUOTE, 1, 2), new Set([QUOTE]))).toBe(false);
    expect(endsInRepetition([QUOTE, ...times(16, 1)], new Set([QUOTE]))).toBe(true);
  });
});
