import { describe, expect, test } from "vitest";
import { HeldRoom, MAX_HELD_BYTES } from "../../../../../gateway/upstream/queue/held-room.ts";

const room = () => new HeldRoom(10);
/** A share of the bytes that may be held, in thousandths. */
const bytes = (thousandths: number) => (MAX_HELD_BYTES * thousandths) / 1_000;

describe("a tenant", () => {
  test("holds at most its share of requests, and leaves room for others", () => {
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

  test("holds at most its share of bytes, but one request of any size that fits", () => {
    const held = room();
    expect(held.tryHold("a", bytes(1_001))).toBeUndefined();
    const whole = held.tryHold("a", bytes(900));
    expect(held.bytes).toBe(bytes(900));
    expect(held.tryHold("a", bytes(1))).toBeUndefined();
    expect(held.tryHold("b", bytes(101))).toBeUndefined();
    expect(held.tryHold("b", bytes(100))).toBeDefined();
    whole?.release();
    expect(held.tryHold("a", bytes(500))).toBeDefined();
    expect(held.tryHold("a", bytes(1))).toBeUndefined();
  });
});
