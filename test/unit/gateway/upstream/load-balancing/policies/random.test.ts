import { expect, test } from "vitest";
import { pickRandom } from "../../../../../../gateway/upstream/load-balancing/policies/random.ts";
import { seededRandom } from "../../../../../bench/routing/seeded-random.ts";
import { endpoints, endpointWith, tally } from "../../../../../support/gateway/upstream/endpoint-with.ts";

test("an empty list has no pick", () => {
  expect(pickRandom([], () => 1, seededRandom(1))).toBeUndefined();
});

test("endpoints are picked as often as their weights say", () => {
  const random = seededRandom(7);
  const pool = [endpointWith({ address: "a", weight: 1 }), endpointWith({ address: "b", weight: 3 })];
  const counts = tally(Array.from({ length: 4_000 }, () => pickRandom(pool, ({ weight }) => weight, random)?.address));
  expect(counts.b).toBeGreaterThan(2_850);
  expect(counts.b).toBeLessThan(3_150);
});

test("the last one takes what rounding leaves", () => {
  expect(
    pickRandom(
      endpoints(3),
      () => 0.1,
      () => 1,
    )?.address,
  ).toBe("e2");
});
