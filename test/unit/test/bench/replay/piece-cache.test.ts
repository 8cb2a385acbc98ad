import { expect, test } from "vitest";
import { PieceCaches, PieceStore } from "../../../../bench/replay/piece-cache.ts";

test("evicts the least recently used piece, the end of a prompt before its beginning", () => {
  const store = new PieceStore();
  const head = store.add(-1, 100);
  const [one, other] = [store.add(head, 50), store.add(head, 60)];
  let nowMs = 0;
  const caches = new PieceCaches(store, 2, 180, () => nowMs);
  caches.use(0, one);
  nowMs = 7;
  caches.use(0, other);
  expect(caches.cached(0, one)).toBe(100);
  expect(caches.cached(0, other)).toBe(160);
  expect(caches.tokens(0)).toBe(160);
  expect(caches.retentionMs(0)).toBe(7);
  expect(caches.cachedEverywhere(other)).toEqual([160, 0]);
  expect(caches.holders(one)).toBe(0);
  expect(caches.holders(head)).toBe(1);
});
