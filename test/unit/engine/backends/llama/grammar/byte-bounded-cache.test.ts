import { expect, test } from "vitest";
import { ByteBoundedCache } from "../../../../../../engine/backends/llama/grammar/byte-bounded-cache.ts";

test("what was not used for longest goes first, and the bound holds at any time", () => {
  const cache = new ByteBoundedCache<number>(100);
  cache.set("a", 1, 40);
  cache.set("b", 2, 40);
  expect(cache.get("a")).toBe(1);
  cache.set("c", 3, 40);
  expect(["a", "b", "c"].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
  expect(cache.bytes).toBe(80);
});

test("a key that is set again is counted once", () => {
  const cache = new ByteBoundedCache<number>(100);
  for (let i = 0; i < 10; i += 1) cache.set("a", i, 60);
  expect([cache.get("a"), cache.bytes]).toEqual([9, 60]);
});

test("what is larger than the bound is not kept", () => {
  const cache = new ByteBoundedCache<number>(100);
  cache.set("a", 1, 101);
  expect([cache.get("a"), cache.bytes]).toEqual([undefined, 0]);
});
