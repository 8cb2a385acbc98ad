import { describe, expect, test } from "vitest";
import { fullBucket, refill, TokenBuckets, take, waitMs } from "../../../../gateway/limits/token-bucket.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

test("a bucket fills evenly, up to its capacity, and never while the clock goes back", () => {
  const rule = { perMinute: 5_000, capacity: 5_000 };
  const empty = take(fullBucket(rule, 0), rule, 5_000);
  expect(refill(empty, rule, 30_000)).toEqual({ level: 2_500, atMs: 30_000 });
  expect(refill(empty, rule, 90_000)).toEqual({ level: 5_000, atMs: 90_000 });
  expect(refill({ level: 10, atMs: 1_000 }, rule, 0).level).toBe(10);
});

test.each([1, 7, 60, 1_000 / 3, 99_999])("after the wait for a rate of %d a minute the cost passes", (perMinute) => {
  const odd = { perMinute, capacity: Math.max(1, perMinute / 6) };
  let bucket = fullBucket(odd, 0.3);
  let now = 0.3;
  for (let round = 0; round < 200; round += 1) {
    const wait = waitMs(bucket, odd, 1);
    if (wait > 1) expect(waitMs(refill(bucket, odd, now + wait - 1), odd, 1)).toBeGreaterThan(0);
    now += wait;
    bucket = refill(bucket, odd, now);
    expect(waitMs(bucket, odd, 1)).toBe(0);
    bucket = take(bucket, odd, 1);
  }
});

describe("buckets by name", () => {
  const bucketsOf = (perMinute: number, max = 10_000) => {
    const clock = new VirtualClock("2026-03-01T12:00:00.000Z");
    return { clock, buckets: new TokenBuckets({ perMinute, capacity: perMinute }, max, clock) };
  };

  test("buckets by name pass up to the limit, each on its own, and again as the bucket refills", () => {
    const { clock, buckets } = bucketsOf(20);
    const take20 = () => buckets.tryTake("192.0.2.1");
    expect(Array.from({ length: 21 }, take20)).toEqual([...Array(20).fill(true), false]);
    expect(buckets.tryTake("192.0.2.2")).toBe(true);
    clock.jump(2_999);
    expect(take20()).toBe(false);
    clock.jump(1);
    expect([take20(), take20()]).toEqual([true, false]);
    buckets.take("192.0.2.1");
    expect(buckets.level("192.0.2.1")).toBe(-1);
  });

  test("buckets by name are bounded, and those in use are kept", () => {
    const { buckets } = bucketsOf(1, 100);
    for (let at = 0; at < 300; at += 1) {
      buckets.tryTake(`network ${at}`);
      buckets.tryTake("persistent");
    }
    expect(buckets.tryTake("persistent")).toBe(false);
    expect(buckets.tryTake("network 0")).toBe(true);
  });
});
