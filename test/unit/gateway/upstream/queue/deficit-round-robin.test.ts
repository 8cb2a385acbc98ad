import { describe, expect, test } from "vitest";
import { DeficitRoundRobin, type FairItem } from "../../../../../gateway/upstream/queue/deficit-round-robin.ts";
import { seededRandom } from "../../../../bench/routing/seeded-random.ts";

const item = (key: string, cost = 10, weight = 1): FairItem => ({ key, cost, weight });

function queueOf(...items: readonly FairItem[]): DeficitRoundRobin<FairItem> {
  const queue = new DeficitRoundRobin<FairItem>(10);
  for (const each of items) queue.push(each);
  return queue;
}

function drain(queue: DeficitRoundRobin<FairItem>, count = Number.POSITIVE_INFINITY): FairItem[] {
  const served: FairItem[] = [];
  for (let next = queue.size > 0 ? queue.next() : undefined; next; next = queue.next()) {
    served.push(next);
    if (served.length >= count) break;
  }
  return served;
}

const keysOf = (items: readonly FairItem[]) => items.map(({ key }) => key).join("");

describe("deficit round robin", () => {
  test("gives keys turns, and each its items in their order", () => {
    const items = Array.from({ length: 10 }, () => [item("a"), item("b")]).flat();
    const served = drain(queueOf(...items));
    expect(keysOf(served)).toMatch(/^ab(ba)*b?$|^abb(ab)*a$/);
    const ofA = (all: readonly FairItem[]) => all.filter(({ key }) => key === "a");
    for (const [index, each] of ofA(served).entries()) expect(each).toBe(ofA(items)[index]);
  });

  test("gives each key's items newest first when told so, with the same turns; what is put back is next again", () => {
    const items = Array.from({ length: 10 }, () => [item("a"), item("b")]).flat();
    const inOrder = keysOf(drain(queueOf(...items)));
    const queue = queueOf(...items);
    queue.setNewestFirst(true);
    const first = queue.next();
    if (!first) throw new Error("nobody waits");
    expect(first).toBe(items[18]);
    queue.putBack(first);
    const served = drain(queue);
    expect(keysOf(served)).toBe(inOrder);
    const ofA = (all: readonly FairItem[]) => all.filter(({ key }) => key === "a");
    for (const [index, each] of ofA(served).entries()) expect(each).toBe(ofA(items).at(-1 - index));
  });

  test("has nothing to give when nobody waits", () => {
    expect(queueOf().next()).toBeUndefined();
  });

  test("shares cost, not items", () => {
    const items = Array.from({ length: 60 }, () => [item("cheap", 10), item("dear", 50)]).flat();
    const served = drain(queueOf(...items), 60);
    expect(served.filter(({ key }) => key === "cheap")).toHaveLength(50);
    expect(served.filter(({ key }) => key === "dear")).toHaveLength(10);
  });

  test("shares by weight", () => {
    const items = Array.from({ length: 60 }, () => [item("a", 10, 1), item("b", 10, 3)]).flat();
    const served = drain(queueOf(...items), 40);
    expect(served.filter(({ key }) => key === "b")).toHaveLength(30);
  });

  test("counts turns in which nobody earns enough, rather than taking them", () => {
    expect(keysOf(drain(queueOf(item("a", 1e13))))).toBe("a");
    expect(keysOf(drain(queueOf(item("a", 2e13), item("b", 1e13))))).toBe("ba");
  });

  test("a key does not lose its turn's earnings to one that leaves before it", () => {
    const queue = queueOf(item("a", 20), item("a", 10), ...["b", "b", "b", "c", "c", "c"].map((key) => item(key, 20)));
    const [, last] = queue.itemsOf("a");
    expect(keysOf(drain(queue, 3))).toBe("bca");
    // The turn is still with a. As it leaves, b has a turn and earns; else c would come first.
    if (last) queue.remove(last);
    expect(keysOf(drain(queue, 2))).toBe("bc");
  });

  test("a key that comes later waits for one turn of each at most", () => {
    const queue = queueOf(...Array.from({ length: 50 }, () => item("flood")));
    drain(queue, 5);
    queue.push(item("late"));
    expect(keysOf(drain(queue, 3))).toContain("late");
  });

  test("a key that had nothing waiting has saved nothing up", () => {
    const queue = queueOf(item("a", 35), ...Array.from({ length: 60 }, () => item("b")));
    drain(queue, 40);
    for (let index = 0; index < 20; index += 1) queue.push(item("a"));
    const served = drain(queue, 10);
    expect(served.filter(({ key }) => key === "a").length).toBeLessThanOrEqual(6);
  });

  test("an item that is taken out is gone, once", () => {
    const [gone, stays] = [item("a"), item("a")];
    const queue = queueOf(gone, stays, item("b"));
    expect(queue.remove(gone)).toBe(true);
    expect(queue.remove(gone)).toBe(false);
    expect(queue.itemsOf("a")).toEqual([stays]);
    expect(queue.size).toBe(2);
    queue.remove(stays);
    expect(keysOf(queue.items())).toBe("b");
    expect(keysOf(drain(queue))).toBe("b");
  });

  test("loses and repeats nothing, whatever comes and goes", () => {
    const chance = seededRandom(12);
    const queue = queueOf();
    const waiting = new Set<FairItem>();
    for (let step = 0; step < 4_000; step += 1) {
      const draw = chance();
      if (draw < 0.5) {
        const added = item(
          `k${Math.floor(chance() * 6)}`,
          1 + Math.floor(chance() * 100),
          1 + Math.floor(chance() * 3),
        );
        waiting.add(added);
        queue.push(added);
      } else if (draw < 0.6) {
        const [first] = waiting;
        if (first) expect(queue.remove(first)).toBe(waiting.delete(first));
      } else {
        const next = queue.next();
        expect(next === undefined).toBe(waiting.size === 0);
        if (next) expect(waiting.delete(next)).toBe(true);
      }
      expect(queue.size).toBe(waiting.size);
    }
  });
});

test("what is put back is next again, and nobody is served earlier or later for it", () => {
  const random = seededRandom(3);
  for (let run = 0; run < 50; run += 1) {
    const items = Array.from({ length: 20 }, () => item("abcd"[Math.floor(random() * 4)] ?? "a", 10 + random() * 40));
    const expected = drain(queueOf(...items));
    const queue = queueOf(...items);
    const served: FairItem[] = [];
    while (queue.size > 0) {
      const next = queue.next();
      if (!next) break;
      if (random() < 0.5) queue.putBack(next);
      else served.push(next);
    }
    expect(served).toEqual(expected);
  }
});
