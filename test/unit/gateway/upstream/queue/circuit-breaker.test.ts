import { describe, expect, test } from "vitest";
import { CircuitBreaker, limitsForSlots, type Permit } from "../../../../../gateway/upstream/queue/circuit-breaker.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

describe("the limits of a cluster", () => {
  test.each([
    [0, { maxRequests: 0, maxPendingRequests: 0 }],
    [8, { maxRequests: 8, maxPendingRequests: 32 }],
    [128, { maxRequests: 128, maxPendingRequests: 512 }],
    [1_000, { maxRequests: 1_000, maxPendingRequests: 512 }],
  ])("with %i slots", (slots, limits) => {
    expect(limitsForSlots(slots)).toEqual(limits);
  });
});

describe("circuit breaker", () => {
  test("opens at the cluster's limit and closes when a request ends", () => {
    const breaker = new CircuitBreaker({ maxRequests: 2, maxPendingRequests: 0 });
    const first = breaker.tryRequest("a", 8);
    expect(breaker.tryRequest("b", 8)).toBeDefined();
    expect(breaker.state).toMatchObject({ remainingRequests: 0, requestsOpen: true });
    expect(breaker.tryRequest("c", 8)).toBeUndefined();
    first?.release();
    expect(breaker.tryRequest("c", 8)).toBeDefined();
    expect(breaker.state.requestOverflows).toBe(1);
  });

  test("applies each endpoint's own limit", () => {
    const breaker = new CircuitBreaker({ maxRequests: 9, maxPendingRequests: 0 });
    breaker.tryRequest("a", 1);
    expect(breaker.hasRoom("a", 1)).toBe(false);
    expect(breaker.tryRequest("a", 1)).toBeUndefined();
    expect(breaker.hasRoom("a", 2)).toBe(true);
    expect(breaker.hasRoom("b", 1)).toBe(true);
    expect(breaker.requestsOn("a")).toBe(1);
  });

  test("limits token counts separately from requests", () => {
    const breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
    const first = breaker.tryCount(2);
    expect(breaker.tryCount(2)).toBeDefined();
    expect(breaker.tryCount(2)).toBeUndefined();
    first?.release();
    first?.release();
    expect(breaker.activeCounts).toBe(1);
    expect(breaker.tryCount(2)).toBeDefined();
  });

  test("counts pending requests separately", () => {
    const breaker = new CircuitBreaker({ maxRequests: 1, maxPendingRequests: 1 });
    const waiting = breaker.tryPending();
    expect(breaker.tryPending()).toBeUndefined();
    expect(breaker.state).toMatchObject({ remainingPending: 0, pendingOpen: true, pendingOverflows: 1 });
    expect(breaker.tryRequest("a", 1)).toBeDefined();
    expect(breaker.activeAndPending).toBe(2);
    waiting?.release();
    expect(breaker.activeAndPending).toBe(1);
  });

  test("counts a release once", () => {
    const breaker = new CircuitBreaker({ maxRequests: 2, maxPendingRequests: 0 });
    const first = breaker.tryRequest("a", 2);
    breaker.tryRequest("a", 2);
    first?.release();
    first?.release();
    expect(breaker.requestsOn("a")).toBe(1);
    expect(breaker.state.remainingRequests).toBe(1);
  });

  test("does not end running requests when its limits fall", () => {
    const breaker = new CircuitBreaker({ maxRequests: 4, maxPendingRequests: 0 });
    for (let index = 0; index < 4; index += 1) breaker.tryRequest("a", 8);
    breaker.setLimits({ maxRequests: 2, maxPendingRequests: 0 });
    expect(breaker.requestsOn("a")).toBe(4);
    expect(breaker.state).toMatchObject({ remainingRequests: 0, requestsOpen: true });
  });

  test("never exceeds its limits, and loses no place", () => {
    const random = seededRandom(8);
    const breaker = new CircuitBreaker({ maxRequests: 10, maxPendingRequests: 5 });
    const held = new Set<Permit>();
    for (let step = 0; step < 5_000; step += 1) {
      const draw = random();
      const permit =
        draw < 0.4
          ? breaker.tryRequest(`e${Math.floor(random() * 3)}`, 4)
          : draw < 0.5
            ? breaker.tryPending()
            : undefined;
      if (permit) held.add(permit);
      const [one] = held;
      if (draw >= 0.5 && one) {
        one.release();
        held.delete(one);
      }
      const onEndpoints = [0, 1, 2].map((index) => breaker.requestsOn(`e${index}`));
      const requests = onEndpoints.reduce((sum, count) => sum + count, 0);
      expect(Math.max(...onEndpoints)).toBeLessThanOrEqual(4);
      expect(requests).toBeLessThanOrEqual(10);
      expect(breaker.activeAndPending - requests).toBeLessThanOrEqual(5);
      expect(breaker.activeAndPending).toBe(held.size);
    }
    for (const permit of held) permit.release();
    expect(breaker.state).toMatchObject({ remainingRequests: 10, remainingPending: 5 });
  });
});
