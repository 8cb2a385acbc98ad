import { describe, expect, test } from "vitest";
import { ownersOf } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-score.ts";
import { endpoints, endpointWith, tally } from "../../../../../../support/gateway/upstream/endpoint-with.ts";

const KEYS = Array.from({ length: 8_000 }, (_, index) => `k${index}`);
const firstOwner = (key: string, pool = endpoints(8)) => ownersOf(key, pool, 1)[0]?.address;

describe("owners", () => {
  test("have even shares of the keys", () => {
    const shares = Object.values(tally(KEYS.map((key) => firstOwner(key))));
    expect(shares).toHaveLength(8);
    for (const share of shares) expect(Math.abs(share - 1_000)).toBeLessThan(120);
  });

  test("have shares by their weights", () => {
    const pool = [endpointWith({ address: "one" }), endpointWith({ address: "three", weight: 3 })];
    expect(Math.abs((tally(KEYS.map((key) => firstOwner(key, pool))).three ?? 0) - 6_000)).toBeLessThan(200);
  });

  test("do not depend on the order of the endpoints", () => {
    for (const key of KEYS.slice(0, 200))
      expect(ownersOf(key, endpoints(8).reverse(), 3)).toEqual(ownersOf(key, endpoints(8), 3));
  });

  test("that leave pass their keys to the second owner, and no other key moves", () => {
    const fewer = endpoints(8).filter(({ address }) => address !== "e3");
    for (const key of KEYS) {
      const [first, second] = ownersOf(key, endpoints(8), 2).map(({ address }) => address);
      expect(firstOwner(key, fewer)).toBe(first === "e3" ? second : first);
    }
  });
});
