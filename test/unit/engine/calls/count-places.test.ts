import { expect, test } from "vitest";
import { CountPermits } from "../../../../engine/calls/count-tokens-call.ts";

test("a tenant has its own permits, and reuses released ones", () => {
  const places = new CountPermits();
  const taken: (() => void)[] = [];
  const full = (tenant: string) => {
    try {
      taken.push(places.take(tenant));
      return false;
    } catch (error) {
      expect(error).toMatchObject({ reason: "QUEUE_FULL" });
      return true;
    }
  };
  while (!full("flood")) expect(taken.length).toBeLessThan(100);
  expect(full("other")).toBe(false);
  taken.shift()?.();
  expect([full("flood"), full("flood")]).toEqual([false, true]);
});

test("the permits of all tenants together are limited", () => {
  const places = new CountPermits();
  let taken = 0;
  const takeAll = () => {
    for (; taken < 10_000; taken += 1) places.take(`t${taken}`);
  };
  expect(takeAll).toThrow(expect.objectContaining({ reason: "QUEUE_FULL" }));
  expect(taken).toBeGreaterThanOrEqual(100);
});
