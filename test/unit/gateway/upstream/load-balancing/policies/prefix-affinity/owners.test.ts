import { describe, expect, test } from "vitest";
import { ownerOf } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/rendezvous.ts";
import { endpoints, endpointWith, tally } from "../../../../../../support/gateway/upstream/endpoint-with.ts";

const KEYS = Array.from({ length: 8_000 }, (_, index) => `k${index}`);
const ownerAt = (key: string, pool = endpoints(8)) => ownerOf(key, pool)?.address;

describe("owners", () => {
  test("owners have even shares of the keys", () => {
    const shares = Object.values(tally(KEYS.map((key) => ownerAt(key))));
    expect(shares).toHaveLength(8);
    for (const share of shares) expect(Math.abs(share - 1_000)).toBeLessThan(120);
  });

  test("owners have shares by their weights", () => {
    const pool = [endpointWith({ address: "one" }), endpointWith({ address: "three", weight: 3 })];
    expect(Math.abs((tally(KEYS.map((key) => ownerAt(key, pool))).three ?? 0) - 6_000)).toBeLessThan(200);
  });

  test("owners do not depend on the order of the endpoints", () => {
    for (const key of KEYS.slice(0, 200)) expect(ownerAt(key, endpoints(8).reverse())).toBe(ownerAt(key));
  });

  test("owners that leave lose their keys to all others, and no other key moves", () => {
    const fewer = endpoints(8).filter(({ address }) => address !== "e3");
    const moved: (string | undefined)[] = [];
    for (const key of KEYS) {
      if (ownerAt(key) === "e3") moved.push(ownerAt(key, fewer));
      else expect(ownerAt(key, fewer)).toBe(ownerAt(key));
    }
    expect(Object.keys(tally(moved)).length).toBe(7);
  });
});
