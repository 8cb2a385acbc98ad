import { describe, expect, test } from "vitest";
import { Utf8Holder } from "../../../../../../engine/backends/llama/tokens/utf8-holder.ts";

/** One token per byte. */
const decode = (bytes: readonly number[]) => Buffer.from(bytes).toString("utf8");
const bytes = (text: string) => [...Buffer.from(text)];

describe("characters are returned whole", () => {
  const cases: readonly [text: string, pieces: readonly string[]][] = [
    ["ab", ["a", "b", ""]],
    ["é", ["", "é", ""]],
    ["a🚀b", ["a", "", "", "", "🚀", "b", ""]],
    ["漢字", ["", "", "漢", "", "", "字", ""]],
  ];
  test.each(cases)("%s", (text, pieces) => {
    const holder = new Utf8Holder(decode, []);
    expect([...bytes(text).map((byte) => holder.push(byte)), holder.flush()]).toEqual(pieces);
  });
});

test("bytes that never become a character are not held forever", () => {
  const holder = new Utf8Holder(decode, []);
  const out = [0xff, 0xff, 0xff, 0xff].map((byte) => holder.push(byte));
  expect(out.slice(0, 3)).toEqual(["", "", ""]);
  expect(out[3]).toContain("\uFFFD");
  expect(holder.push(0x61)).toBe("a");
});

test("half a character at the end is returned as it is", () => {
  const holder = new Utf8Holder(decode, []);
  expect(holder.push(0xf0)).toBe("");
  expect(holder.flush()).toContain("\uFFFD");
  expect(holder.flush()).toBe("");
});

test("the decoder receives the preceding tokens", () => {
  const seen: (readonly number[])[] = [];
  const holder = new Utf8Holder((ids: readonly number[], before: readonly number[]) => {
    seen.push(before);
    return decode(ids);
  }, bytes("prompt"));
  for (const byte of bytes("ab")) holder.push(byte);
  expect(seen).toEqual([bytes("ompt"), bytes("mpta")]);
});
