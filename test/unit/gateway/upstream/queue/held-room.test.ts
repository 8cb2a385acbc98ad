import { describe, expect, test } from "vitest";
import { HeldRoom } from "../../../../../gateway/upstream/queue/held-room.ts";

const room = (change: object = {}) =>
  new HeldRoom({ maxHeldRequests: 10, maxHeldBytes: 1_000, tenantReservePercent: 50, ...change });

describe("a tenant", () => {
  test("holds no more requests than its share, and others find room beside it", () => {
    const held = room();
    const permits = Array.from({ length: 7 }, () => held.tryHold("a", 0));
    expect(permits.map(Boolean)).toEqual([true, true, true, true, true, false, false]);
    expect(held.tryHold("b", 0)).toBeDefined();
    permits[0]?.release();
    permits[0]?.release();
    expect(held.requests).toBe(5);
    expect(held.tryHold("a", 0)).toBeDefined();
    expect(held.tryHold("a", 0)).toBeUndefined();
  });

  test("holds no more bytes than its share, but one request of any size that fits", () => {
    const held = room();
    expect(held.tryHold("a", 1_001)).toBeUndefined();
    const whole = held.tryHold("a", 900);
    expect(held.bytes).toBe(900);
    expect(held.tryHold("a", 1)).toBeUndefined();
    expect(held.tryHold("b", 101)).toBeUndefined();
    expect(held.tryHold("b", 100)).toBeDefined();
    whole?.release();
    expect(held.tryHold("a", 500)).toBeDefined();
    expect(held.tryHold("a", 1)).toBeUndefined();
  });

  test("has all of it where nothing is kept for others", () => {
    const held = room({ tenantReservePercent: 0 });
    const permits = Array.from({ length: 11 }, () => held.tryHold("a", 100));
    expect(permits.filter(Boolean)).toHaveLength(10);
    expect([held.requests, held.bytes]).toEqual([10, 1_000]);
  });
});
