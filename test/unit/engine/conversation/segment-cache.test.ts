import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { SegmentCache } from "../../../../engine/conversation/segment-cache.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const TEXT = "<|im_start|>user\nWhat is to be done?";
const tokens = (count: number) => new Uint32Array(count).fill(7);

function cache(megabytes = 1) {
  const clock = new VirtualClock();
  return { clock, segments: new SegmentCache(clock, megabytes, 24) };
}

test("a segment is found by its tenant under its salt, and read as control tokens or not", () => {
  const { segments } = cache();
  segments.of("a", "s").keep(TEXT, true, tokens(9));
  expect(segments.of("a", "s").get(TEXT, true)).toEqual(tokens(9));
  expect(segments.of("a", "s").get(TEXT, false)).toBeUndefined();
  expect(segments.of("a", "other").get(TEXT, true)).toBeUndefined();
  expect(segments.of("b", "s").get(TEXT, true)).toBeUndefined();
  expect(segments.of("a", "s").get(`${TEXT}!`, true)).toBeUndefined();
  expect(segments).toMatchObject({ foundTokens: 9, madeTokens: 9 });
});

test("two caches have other keys, and short segments are not kept", () => {
  const { segments } = cache();
  segments.of("a", "").keep("short", true, tokens(2));
  expect(segments.of("a", "").get("short", true)).toBeUndefined();
  expect(segments.bytes).toBe(0);
});

test("an entry goes ten minutes after its last use, whether or not another comes", async () => {
  const { clock, segments } = cache();
  const own = segments.of("a", "");
  own.keep(TEXT, true, tokens(9));
  own.keep(`${TEXT} two`, true, tokens(9));
  for (let minute = 0; minute < 12; minute += 1) {
    await clock.advance(60_000);
    own.get(`${TEXT} two`, true);
  }
  expect(own.get(TEXT, true)).toBeUndefined();
  expect(own.get(`${TEXT} two`, true)).toEqual(tokens(9));
  await clock.advance(12 * 60_000);
  expect(segments.bytes).toBe(0);
});

test("the tenant that has most loses its least recently used ones", () => {
  const { segments } = cache();
  const [big, small] = [segments.of("big", ""), segments.of("small", "")];
  small.keep(TEXT, true, tokens(1_000));
  for (let at = 0; at < 100; at += 1) {
    big.keep(`${TEXT} ${at}`, true, tokens(10_000));
    if (at > 0) big.get(`${TEXT} 0`, true);
  }
  expect(segments.bytes).toBeLessThanOrEqual(1_000_000);
  expect(segments.bytes).toBeGreaterThan(900_000);
  expect(small.get(TEXT, true)).toBeDefined();
  expect(big.get(`${TEXT} 0`, true)).toBeDefined();
  expect(big.get(`${TEXT} 1`, true)).toBeUndefined();
  expect(big.get(`${TEXT} 99`, true)).toBeDefined();
});

test("without room nothing is kept, and clearing drops all", () => {
  const none = cache(0).segments;
  none.of("a", "").keep(TEXT, true, tokens(1));
  expect(none.bytes).toBe(0);
  const { segments } = cache();
  segments.of("a", "").keep(TEXT, true, tokens(1));
  segments.clear();
  expect(segments.bytes).toBe(0);
  expect(segments.of("a", "").get(TEXT, true)).toBeUndefined();
});

test("tokens come back as they were kept, in short lists and in long ones", () => {
  const own = cache().segments.of("a", "");
  for (const count of [0, 1, 7, 512, 513, 4_000]) {
    const kept = Uint32Array.from({ length: count }, (_, at) => (at * 2_654_435_761) >>> 0).subarray(0);
    own.keep(`${TEXT} ${count}`, true, kept);
    expect(own.get(`${TEXT} ${count}`, true)).toEqual(kept);
  }
});

test("the bytes that are counted are those that the process has more", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const used = () => {
    // What the tests before left behind is freed by the second: finalizers run between them.
    collect();
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const { segments } = cache(32);
  const own = segments.of("a", "");
  const before = used();
  // As an agent's conversation has them: mostly a few tokens, sometimes thousands.
  for (let at = 0; segments.bytes < 31_000_000; at += 1)
    own.keep(`${TEXT} ${at}`, true, tokens([5, 5, 50, 5, 5, 20, 50, 2_000][at % 8] ?? 0));
  const more = used() - before;
  expect(more).toBeLessThan(1.05 * segments.bytes);
  expect(more).toBeGreaterThan(0.7 * segments.bytes);
  expect(own.get(`${TEXT} 0`, true)).toBeDefined();
});
