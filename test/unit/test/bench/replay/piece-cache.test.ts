import { expect, test } from "vitest";
import { type EvictionOrder, PieceCaches, PieceStore } from "../../../../bench/replay/piece-cache.ts";
import type { Prompt } from "../../../../bench/replay/traffic.ts";
import { replayedPrompt } from "./replayed-prompt.ts";

/** Creates one cache of 1,000 tokens, and a clock that each answer advances by a second. */
function cacheOf(evict?: EvictionOrder, slots?: number) {
  const store = new PieceStore();
  let nowMs = 0;
  const caches = new PieceCaches(store, 1, { tokens: 1_000, slots, evict }, () => nowMs);
  /** Answers a prompt of a conversation that ends with the piece `last`. */
  const answer = (conversation: string, last: number, more: Partial<Prompt> = {}) => {
    const tokens = store.depth(last);
    const place = caches.begin(0, replayedPrompt(last, tokens, { affinityKey: conversation, ...more }));
    place.prefilled();
    nowMs += 1_000;
    place.done();
  };
  const cached = (last: number) => caches.cached(0, last);
  return { store, caches, answer, cached };
}

const usedIn = (last: number, afterMs: number): Partial<Prompt> => ({ nextUses: () => [{ last, afterMs }] });

test("the least recently used prompt is dropped, its end before its beginning", () => {
  const { store, caches, answer, cached } = cacheOf();
  const head = store.add(-1, 200);
  const [one, other] = [store.add(store.add(head, 200), 200), store.add(head, 300)];
  answer("one", one);
  answer("other", other);
  expect(caches.tokens(0)).toBe(900);
  const third = store.add(-1, 200);
  answer("third", third);
  expect([cached(one), cached(other), cached(third)]).toEqual([400, 500, 200]);
  expect(caches.retentionMs(0)).toBe(1_000);
});

test("a conversation that has ended goes first", () => {
  const { store, answer, cached } = cacheOf("ended_first");
  const [old, ended, late] = [store.add(-1, 400), store.add(-1, 400), store.add(-1, 400)];
  answer("old", old);
  answer("ended", ended, { endsConversation: true, ...usedIn(ended, Number.POSITIVE_INFINITY) });
  answer("late", late);
  expect([cached(old), cached(ended), cached(late)]).toEqual([400, 0, 400]);
});

test("a conversation that waits for a person goes before one whose tools run, and none whose request waits", () => {
  const { store, caches, answer, cached } = cacheOf("known");
  const [awaited, tools, person] = [store.add(-1, 300), store.add(-1, 300), store.add(-1, 300)];
  answer("awaited", awaited, { callsTools: false });
  answer("tools", tools);
  answer("person", person, { callsTools: false });
  const served = caches.waits("awaited");
  answer("late", store.add(-1, 300));
  expect([cached(awaited), cached(tools), cached(person)]).toEqual([300, 300, 0]);
  served();
  answer("later", store.add(-1, 300));
  expect([cached(awaited), cached(tools)]).toEqual([0, 300]);
});

test("by Belady's rule the latest next use goes first, each part of a prompt by its own next use", () => {
  const { store, answer, cached } = cacheOf("belady");
  const head = store.add(-1, 200);
  const soon = store.add(head, 200);
  const later = store.add(head, 400);
  answer("later", later, { nextUses: () => [usedAt(head, 5_000), usedAt(later, 60_000)] });
  answer("soon", soon, usedIn(soon, 3_000));
  const third = store.add(-1, 400);
  answer("third", third, usedIn(third, 50_000));
  expect([cached(soon), cached(later), cached(third)]).toEqual([400, 200, 400]);
});

const usedAt = (last: number, afterMs: number) => ({ last, afterMs });

test("a new conversation takes an empty slot, into which the common beginning is copied", () => {
  const { store, caches, answer, cached } = cacheOf(undefined, 3);
  const head = store.add(-1, 100);
  const [one, other] = [store.add(head, 50), store.add(head, 60)];
  answer("one", one);
  expect(cached(other)).toBe(100);
  answer("other", other);
  expect([cached(one), cached(other)]).toEqual([150, 160]);
  // Slots in use count whole, however little is in them.
  expect(caches.tokens(0)).toBeCloseTo(667, 0);
  answer("one", store.add(one, 50));
  expect(caches.tokens(0)).toBeCloseTo(667, 0);
});

test("the least recently used slot is taken over when none is empty, but none that is in use", () => {
  const { store, caches, answer, cached } = cacheOf(undefined, 2);
  const [one, other, third] = [store.add(-1, 100), store.add(-1, 100), store.add(-1, 100)];
  answer("one", one);
  answer("other", other);
  const place = caches.begin(0, replayedPrompt(one, 100, { affinityKey: "one" }));
  place.prefilled();
  answer("third", third);
  expect([cached(one), cached(other), cached(third)]).toEqual([100, 0, 100]);
  const second = caches.begin(0, replayedPrompt(third, 100, { affinityKey: "third" }));
  expect(caches.hasCapacity(0)).toBe(false);
  second.done();
  expect(caches.hasCapacity(0)).toBe(true);
});

test("a slot holds no more of a prompt than it has room for", () => {
  const { store, answer, cached } = cacheOf(undefined, 2);
  const long = store.add(store.add(-1, 400), 400);
  answer("long", long);
  expect(cached(long)).toBe(400);
});
