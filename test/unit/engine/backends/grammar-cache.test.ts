import { expect, test } from "vitest";
import { ByteBoundedCache } from "../../../../engine/backends/grammar-cache.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const cacheOf = (maxBytes: number, maxBytesOfOwner = maxBytes, clock = new VirtualClock()) =>
  new ByteBoundedCache<number>({ maxBytes, maxBytesOfOwner, maxUnusedMs: 100 }, clock);

test("the least recently used value is evicted first, of any owner, and the limit always holds", () => {
  const cache = cacheOf(100);
  cache.set("a", 1, 40, "one");
  cache.set("b", 2, 40, "other");
  expect(cache.get("a")).toBe(1);
  cache.set("c", 3, 40, "one");
  expect(["a", "b", "c"].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
  expect(cache.bytes).toBe(80);
});

test("an owner beyond its share evicts its own values, not those of others", () => {
  const cache = cacheOf(100, 50);
  cache.set("honest", 0, 40, "honest");
  for (let i = 0; i < 1_000; i += 1) cache.set(`flood ${i}`, i, 20, "flood");
  expect(cache.get("honest")).toBe(0);
  expect(cache.get("flood 999")).toBe(999);
  expect(cache.get("flood 998")).toBe(998);
  expect(cache.get("flood 997")).toBeUndefined();
  expect(cache.bytes).toBe(80);
});

test.each([
  [100, 100],
  [200, 100],
])("a value larger than a limit is not kept (%i, %i)", (maxBytes, maxBytesOfOwner) => {
  const cache = cacheOf(maxBytes, maxBytesOfOwner);
  cache.set("a", 1, 101, "one");
  expect([cache.get("a"), cache.bytes]).toEqual([undefined, 0]);
});

test("idle values are dropped in their time, and no others", async () => {
  const clock = new VirtualClock();
  const cache = cacheOf(100, 100, clock);
  const bytesAfter = async (ms: number, used: string) => {
    await clock.advance(ms);
    cache.get(used);
    return cache.bytes;
  };
  cache.set("a", 1, 1, "one");
  cache.set("b", 2, 10, "other");
  expect([await bytesAfter(50, "a"), await bytesAfter(50, "a")]).toEqual([11, 1]);
  expect([await bytesAfter(100, "none"), await bytesAfter(50, "none")]).toEqual([0, 0]);
  cache.set("d", 4, 4, "one");
  expect([await bytesAfter(99, "none"), await bytesAfter(1, "none")]).toEqual([4, 0]);
});
