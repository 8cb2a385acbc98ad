import { expect, test } from "vitest";
import { BlockPrefixes, type PrefixPlace } from "../../../../engine/prefixes/block-prefixes.ts";
import { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import { blockKeys, PrefixCache } from "../../../support/engine/simulator/prefix-cache.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const UNLIMITED = { used: 0, total: 0 };
const BLOCK = 64;
/** The UTF-16 units of a block of the simulator's cache. */
const UNITS = 256;

test("a prefix is held with its whole blocks, and the last has the answer in its tail", () => {
  const held = new HeldPrefixes(() => UNLIMITED);
  const blocks = new BlockPrefixes<string>(held, 10);
  const places = [
    { digest: "head", tokens: 20 },
    { digest: "ask", tokens: 35 },
  ];
  blocks.stored({ model: "m", places, blocks: ["a", "b", "c", "d", "e"] }, 5);
  expect(held.get("head")).toEqual({ model: "m", tokens: 20, tailTokens: 0 });
  expect(held.get("ask")).toEqual({ model: "m", tokens: 30, tailTokens: 20 });

  blocks.removed("e");
  expect(held.get("ask")).toMatchObject({ tokens: 30, tailTokens: 10 });
  blocks.removed("d");
  blocks.removed("c");
  expect(held.get("ask")).toBeUndefined();
  expect(held.get("head")).toMatchObject({ tokens: 20, tailTokens: 0 });
  blocks.removed("b");
  blocks.removed("a");
  expect(held.size).toBe(0);
});

test("a digest whose successor is lost keeps the held blocks after it in its tail", () => {
  const held = new HeldPrefixes(() => UNLIMITED);
  const blocks = new BlockPrefixes<string>(held, 10);
  const places = [
    { digest: "head", tokens: 10 },
    { digest: "ask", tokens: 40 },
  ];
  blocks.stored({ model: "m", places, blocks: ["a", "b", "c", "d"] }, 4);
  blocks.removed("d");
  expect(held.get("ask")).toBeUndefined();
  expect(held.get("head")).toMatchObject({ tokens: 10, tailTokens: 20 });
});

/** Conversations over shared heads that grow, branch, are truncated and return, as digests and texts. */
function randomLines(random: () => number, count: number): { text: string; places: PrefixPlace[] }[] {
  const lines: { text: string; places: PrefixPlace[] }[] = [];
  let made = 0;
  for (let index = 0; index < count; index += 1) {
    const parent = random() < 0.8 ? lines[Math.floor(random() * lines.length)] : undefined;
    const kept = parent ? parent.places.slice(0, 1 + Math.floor(random() * parent.places.length)) : [];
    let text = parent ? parent.text.slice(0, (kept.at(-1)?.tokens ?? 0) * (UNITS / BLOCK)) : "";
    const places = [...kept];
    for (let more = 1 + Math.floor(random() * 3); more > 0; more -= 1) {
      made += 1;
      const message = `${made} `.repeat(Math.ceil(random() * 300));
      text += message.slice(0, message.length - (message.length % 4));
      places.push({ digest: `d${made}`, tokens: text.length / 4 });
    }
    lines.push({ text: text + "answer ".repeat(Math.floor(random() * 100)), places });
  }
  return lines;
}

test("for any stores and evictions the reports match the cache", () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    const random = seededRandom(seed);
    const cache = new PrefixCache(BLOCK * 40, () => 0);
    const told = new Map<string, number>();
    cache.held.onChange((digest) => {
      const now = cache.held.get(digest);
      if (now) told.set(digest, now.tokens + now.tailTokens);
      else told.delete(digest);
    });
    /** The newest line with each digest. */
    const newest = new Map<string, { keys: readonly number[]; index: number; places: readonly PrefixPlace[] }>();
    const wrong: object[] = [];
    const lines = randomLines(random, 40);
    for (let step = 0; step < 80; step += 1) {
      const line = lines[Math.floor(random() * lines.length)] ?? { text: "", places: [] };
      const keys = blockKeys(line.text, "tenant");
      cache.store(keys, { model: "m", places: line.places });
      for (const [index, { digest }] of line.places.entries()) newest.set(digest, { keys, index, places: line.places });

      for (const [digest, { keys: mine, index, places }] of newest) {
        const heldTokens = cache.cachedTokens(mine);
        const upTo = Math.floor((places[index]?.tokens ?? 0) / BLOCK) * BLOCK;
        const next = places[index + 1];
        const nextAt = next ? Math.floor(next.tokens / BLOCK) * BLOCK : Number.POSITIVE_INFINITY;
        const tail = heldTokens >= nextAt ? 0 : heldTokens - upTo;
        const expected = upTo > 0 && heldTokens >= upTo ? upTo + tail : undefined;
        // Blocks that returned through a line without the digest are not attributed to it: reports may be too small,
        // never too large.
        const now = told.get(digest);
        const isLast = expected === undefined || index === places.length - 1;
        if (isLast && (now ?? 0) > (expected ?? 0)) wrong.push({ seed, step, digest, now, expected });
        if (line.places.some((place) => place.digest === digest) && now !== expected)
          wrong.push({ seed, step, digest, now, expected });
      }
    }
    expect(wrong).toEqual([]);
    expect(cache.held.size).toBe(told.size);
  }
});
