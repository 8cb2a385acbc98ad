import { expect, test } from "vitest";
import { TextDigest } from "../../../../../gateway/upstream/continuation/text-digest.ts";

function digestOf(...pieces: readonly string[]): TextDigest {
  const digest = new TextDigest();
  for (const piece of pieces) digest.add(piece);
  return digest;
}

test("the division of a text makes no difference, even within a character", () => {
  const text = 'Füße 🦊 und {"a": "b\\n"}';
  const whole = digestOf(text);
  expect(whole.length).toBe(text.length);
  for (let at = 0; at <= text.length; at += 1)
    expect(digestOf(text.slice(0, at), text.slice(at)).equals(whole)).toBe(true);
});

test("only code units before the end count", () => {
  const digest = new TextDigest();
  digest.add("abcdef", 3);
  expect(digest.equals(digestOf("abc"))).toBe(true);
});

test.each([
  ["a", "b"],
  ["ab", "ba"],
  ["a", "aa"],
  ["", "\0"],
  ["x\0", "x"],
  ["1234", "1243"],
])("%j and %j differ", (one, other) => {
  expect(digestOf(one).equals(digestOf(other))).toBe(false);
});
