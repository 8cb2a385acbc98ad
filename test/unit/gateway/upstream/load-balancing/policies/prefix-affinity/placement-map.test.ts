import { describe, expect, test } from "vitest";
import type { Boundary } from "../../../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { PlacementMap } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/placement-map.ts";

const at = (hash: string, bytes = 100, marked = false): Boundary => ({ hash, bytes, marked });
const chain = (length: number) => Array.from({ length }, (_, index) => at(`h${index}`, (index + 1) * 100));
const USE = { tokensPerByte: 0.25, ttlMs: 1_000, nowMs: 0, confirmed: true };

const map = (maxPrefixes = 100) => new PlacementMap(maxPrefixes);
const addresses = (placements: PlacementMap, hash: string, nowMs = 0) =>
  placements.holders(hash, nowMs).map(({ address }) => address);

describe("placement map", () => {
  test("returns the holders of a prefix, the latest first", () => {
    const placements = map();
    placements.record([at("h")], "a", USE);
    placements.record([at("h")], "b", USE);
    expect(addresses(placements, "h")).toEqual(["b", "a"]);
    expect(addresses(placements, "other")).toEqual([]);
  });

  test("removes a prefix after its lifetime, which each use renews", () => {
    const placements = map();
    placements.record([at("h")], "a", USE);
    placements.record([at("h")], "a", { ...USE, nowMs: 900 });
    expect(addresses(placements, "h", 1_899)).toEqual(["a"]);
    expect(addresses(placements, "h", 1_900)).toEqual([]);
  });

  test("does not shorten a longer lifetime of an earlier request", () => {
    const placements = map();
    placements.record([at("h")], "a", { ...USE, ttlMs: 60_000 });
    placements.record([at("h")], "a", { ...USE, ttlMs: 10 });
    expect(addresses(placements, "h", 59_999)).toEqual(["a"]);
  });

  test("is bounded: the least recently used prefix is evicted", () => {
    const placements = map(2);
    placements.record([at("h0")], "a", USE);
    placements.record([at("h1")], "a", USE);
    placements.record([at("h0")], "a", USE);
    placements.record([at("h2")], "a", USE);
    expect(placements.size).toBe(2);
    expect(["h0", "h1", "h2"].map((hash) => addresses(placements, hash).length)).toEqual([1, 0, 1]);
  });

  test("stores a bounded number of holders", () => {
    const placements = map();
    for (const address of ["a", "b", "c", "d", "e", "f", "g", "h", "i"]) placements.record([at("h")], address, USE);
    expect(addresses(placements, "h")).toEqual(["i", "h", "g", "f", "e", "d", "c", "b"]);
  });

  test("stores the head, the tail and the marked boundaries of a long prompt", () => {
    const placements = map();
    const prompt = chain(20).map((boundary, index) => ({ ...boundary, marked: index === 6 }));
    placements.record(prompt, "a", USE);
    const kept = prompt.filter(({ hash }) => addresses(placements, hash).length > 0).map(({ hash }) => hash);
    expect(kept).toEqual(["h0", "h1", "h6", ...Array.from({ length: 8 }, (_, index) => `h${index + 12}`)]);
  });

  test("replaces the estimated length by the measured one, never the reverse", () => {
    const placements = map();
    const tokens = () => placements.holders("h", 0)[0]?.tokens;
    placements.record([at("h")], "a", { ...USE, confirmed: false });
    expect(tokens()).toBe(25);
    placements.record([at("h")], "a", { ...USE, tokensPerByte: 0.5 });
    expect(tokens()).toBe(50);
    placements.record([at("h")], "a", { ...USE, confirmed: false });
    expect(tokens()).toBe(50);
  });

  test("withdraws only the beliefs of a request that was not prefilled", () => {
    const placements = map();
    placements.record([at("h0")], "a", USE);
    placements.record([at("h0"), at("h1")], "a", { ...USE, confirmed: false });
    placements.record([at("h1")], "b", { ...USE, confirmed: false });
    placements.withdraw([at("h0"), at("h1")], "a");
    expect(addresses(placements, "h0")).toEqual(["a"]);
    expect(addresses(placements, "h1")).toEqual(["b"]);
  });

  test("drops prefixes older than one found evicted", () => {
    const placements = map();
    placements.record([at("old")], "a", { ...USE, nowMs: 10 });
    placements.record([at("old")], "b", { ...USE, nowMs: 10 });
    placements.record([at("gone")], "a", { ...USE, nowMs: 20 });
    placements.record([at("new")], "a", { ...USE, nowMs: 30 });
    placements.evicted("a", 20);
    expect(["old", "gone", "new"].map((hash) => addresses(placements, hash, 40))).toEqual([["b"], [], ["a"]]);
    placements.record([at("old")], "a", { ...USE, nowMs: 50 });
    expect(addresses(placements, "old", 50)).toEqual(["a", "b"]);
  });

  test("removes everything of an endpoint that left", () => {
    const placements = map();
    placements.record([at("h0"), at("h1")], "a", USE);
    placements.record([at("h1")], "b", USE);
    placements.forgetEndpoint("a");
    expect(addresses(placements, "h1")).toEqual(["b"]);
    expect(placements.size).toBe(1);
  });
});
