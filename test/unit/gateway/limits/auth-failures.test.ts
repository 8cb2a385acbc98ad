import { describe, expect, test } from "vitest";
import { AuthFailures } from "../../../../gateway/limits/auth-failures.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

describe("failed attempts", () => {
  test("pass up to the limit, and again as the bucket refills", () => {
    const clock = new VirtualClock("2026-03-01T12:00:00.000Z");
    const failures = new AuthFailures(20, clock);
    const add = () => failures.add("192.0.2.1");
    expect(Array.from({ length: 21 }, add)).toEqual([...Array(20).fill(true), false]);
    clock.jump(2_999);
    expect(add()).toBe(false);
    clock.jump(1);
    expect([add(), add()]).toEqual([true, false]);
    clock.jump(60_000);
    expect(Array.from({ length: 21 }, add).filter(Boolean)).toHaveLength(20);
  });

  test("of one network are none of another's", () => {
    const failures = new AuthFailures(1, new VirtualClock("2026-03-01T12:00:00.000Z"));
    expect([failures.add("192.0.2.1"), failures.add("192.0.2.1"), failures.add("192.0.2.2")]).toEqual([
      true,
      false,
      true,
    ]);
  });

  test("are remembered for a bounded number of networks, the ones that fail on among them", () => {
    const failures = new AuthFailures(1, new VirtualClock("2026-03-01T12:00:00.000Z"));
    for (let at = 0; at < 30_000; at += 1) {
      failures.add(`network ${at}`);
      failures.add("persistent");
    }
    expect(failures.size).toBe(10_000);
    expect(failures.add("persistent")).toBe(false);
    expect(failures.add("network 0")).toBe(true);
  });
});
