import { describe, expect, test } from "vitest";
import { HashRing } from "../../../../../gateway/upstream/load-balancing/hash-ring.ts";
import { tally } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { SeededRandom } from "../../../../support/seeded-random.ts";

const KEYS = Array.from({ length: 2_000 }, (_, index) => `key ${index}`);

function ringOf(...addresses: readonly string[]): HashRing {
  return new HashRing(addresses.map((address) => ({ address, weight: 1 })));
}

function ownerOf(ring: HashRing, key: string): string | undefined {
  for (const owner of ring.ownersOf(key)) return owner;
  return undefined;
}

describe("the hash ring", () => {
  test("names every member once for a key", () => {
    expect([...ringOf("a", "b", "c", "d").ownersOf("key")].sort()).toEqual(["a", "b", "c", "d"]);
  });

  test("has no owners without members", () => {
    expect([...ringOf().ownersOf("key")]).toEqual([]);
  });

  test("is the same for the same members in any order", () => {
    const [one, other] = [ringOf("a", "b", "c"), ringOf("c", "a", "b")];
    for (const key of KEYS) expect([...one.ownersOf(key)]).toEqual([...other.ownersOf(key)]);
  });

  test("gives members their share by weight", () => {
    const ring = new HashRing([
      { address: "a", weight: 1 },
      { address: "b", weight: 1 },
      { address: "c", weight: 2 },
    ]);
    const counts = tally(KEYS.map((key) => ownerOf(ring, key)));
    expect(counts.c).toBeGreaterThan(KEYS.length * 0.4);
    expect(counts.c).toBeLessThan(KEYS.length * 0.6);
  });

  test("moves keys only to a member that joins, and about its share of them", () => {
    const [before, after] = [ringOf("a", "b", "c", "d"), ringOf("a", "b", "c", "d", "e")];
    const moved = KEYS.filter((key) => ownerOf(before, key) !== ownerOf(after, key));
    expect(moved.every((key) => ownerOf(after, key) === "e")).toBe(true);
    expect(moved.length).toBeGreaterThan(KEYS.length * 0.1);
    expect(moved.length).toBeLessThan(KEYS.length * 0.3);
  });

  test("gives the keys of one that leaves to their next owners, and moves no other", () => {
    const [before, after] = [ringOf("a", "b", "c", "d"), ringOf("a", "b", "d")];
    for (const key of KEYS) {
      expect([...after.ownersOf(key)]).toEqual([...before.ownersOf(key)].filter((owner) => owner !== "c"));
    }
  });
});

describe("a ring that changes", () => {
  const members = (count: number, from = 0) =>
    Array.from({ length: count }, (_, index) => ({ address: `e${from + index}`, weight: 1 }));
  const owners = (ring: HashRing) => KEYS.slice(0, 200).map((key) => ownerOf(ring, key));

  test("is the one that is made of the same members anew, whatever came, went and changed its weight", () => {
    const ring = new HashRing();
    const steps = [
      members(5),
      members(8),
      [...members(4), { address: "e5", weight: 2 }],
      members(6, 2).map((member, at) => ({ ...member, weight: at + 2 })),
      [],
      members(3),
    ];
    for (const step of steps) {
      ring.update(step);
      expect(owners(ring)).toEqual(owners(new HashRing(step.toReversed())));
    }
  });

  test("has nothing left of whoever came and went, and nothing in another order", () => {
    const random = new SeededRandom(12);
    const ring = new HashRing();
    let now: readonly { readonly address: string; readonly weight: number }[] = members(40);
    for (let change = 0; change < 60; change += 1) {
      const weight = random.pick([1, 1, 1, 2]);
      const at = random.below(now.length);
      now = random.below(2) === 0 ? now.toSpliced(at, 1) : now.toSpliced(at, 0, { address: `new ${change}`, weight });
      ring.update(now);
      const anew = new HashRing(now.toReversed());
      for (const key of KEYS.slice(0, 3)) expect([...ring.ownersOf(key)]).toEqual([...anew.ownersOf(key)]);
    }
  });
});
