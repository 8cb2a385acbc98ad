import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { makePepper, matchDigest, pseudonym } from "../../../../gateway/keys/key-digest.ts";

const pepper = makePepper(Buffer.alloc(32, 7));
const other = makePepper(Buffer.alloc(32, 8));

describe("makePepper", () => {
  test("names different peppers differently and shows none of their bytes", () => {
    expect(pepper.id).toMatch(/^[0-9a-f]{8}$/);
    expect(pepper.id).not.toBe(other.id);
    expect(pepper.id).not.toBe("07070707");
  });
});

describe("matchDigest", () => {
  const [a, b, c] = [randomBytes(32), randomBytes(32), randomBytes(32)] as const;

  test.each([
    ["the only one", a, [a], 0],
    ["the first of two", a, [a, b], 0],
    ["the second of two", b, [a, b], 1],
    ["none of two", c, [a, b], -1],
    ["one where there is none", c, [], -1],
    ["the digest that fills the gaps", Buffer.alloc(32), [a], -1],
  ])("finds %s", (_, presented, stored, position) => {
    expect(matchDigest(presented, stored)).toBe(position);
  });
});

test("a pseudonym depends on its use and on the borders of its parts", () => {
  const made = [
    pseudonym(pepper, "tenant", ["a", "b"]),
    pseudonym(pepper, "salt", ["a", "b"]),
    pseudonym(pepper, "tenant", ["ab"]),
    pseudonym(pepper, "tenant", ["a,b"]),
    pseudonym(other, "tenant", ["a", "b"]),
  ].map((bytes) => bytes.toString("hex"));
  expect(new Set(made).size).toBe(made.length);
});
