import { describe, expect, test } from "vitest";
import { tokenBytes } from "../../../../../../engine/backends/llama/tokens/logprobs.ts";

describe("the bytes of a token", () => {
  const cases: readonly [name: string, text: string, spelling: string | undefined, bytes: number[]][] = [
    ["are those of its text", " é", "ĠÃ©", [0x20, 0xc3, 0xa9]],
    ["come from its spelling when it is part of a character", "\uFFFD", "ðŁ", [0xf0, 0x9f]],
    ["even an unprintable part", "\uFFFD", "\u0122\u0143", [0x80, 0xad]],
    ["are unknown without a spelling of bytes", "\uFFFD", "漢", []],
    ["are empty without a spelling", "\uFFFD", undefined, []],
  ];
  test.each(cases)("%s", (_name, text, spelling, bytes) => {
    expect([...tokenBytes(text, spelling)]).toEqual(bytes);
  });
});
