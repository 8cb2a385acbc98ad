import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { hmacSha256 } from "../../../gateway/keys/key-digest.ts";

test.each([0, 1, 55, 56, 1_365, 1_366, 4_096, 10_000])(
  "a text of %i characters has the HMAC that Node gives it",
  (length) => {
    // Under keys of all lengths that HMAC treats in its own way, one after the other in the same room.
    for (const key of [Buffer.alloc(100, 3), Buffer.alloc(64, 2), Buffer.alloc(32, 1), Buffer.alloc(0)])
      for (const text of ["a".repeat(length), "\u20ac".repeat(length)])
        expect(hmacSha256(key, text)).toEqual(createHmac("sha256", key).update(text).digest());
  },
);

test("a digest is its own: the next one does not change it", () => {
  const first = hmacSha256(Buffer.alloc(32, 1), "first");
  const before = Buffer.from(first);
  hmacSha256(Buffer.alloc(32, 2), "second");
  expect(first).toEqual(before);
});
