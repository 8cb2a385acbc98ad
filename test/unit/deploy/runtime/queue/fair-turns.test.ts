import { describe, expect, test } from "vitest";
import { FairTurns, type Taken, type TurnItem } from "../../../../../deploy/runtime/queue/fair-turns.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

type Item = TurnItem & { readonly name: string };

const item = (key: string, cost = 10, weight = 1): Item => ({ key, cost, weight, name: key });

/** "a1:50:2" is item a1 of key a, which costs 50 and has rank 2. */
function named(...words: readonly string[]): Item[] {
  return words.map((word) => {
    const [name = "", cost, rank] = word.split(":");
    return { key: name.charAt(0), rank: Number(rank ?? 0), cost: Number(cost ?? 100), name };
  });
}

function turnsOf(...items: readonly Item[]): FairTurns<Item> {
  const turns = new FairTurns<Item>();
  for (const each of items) turns.push(each);
  return turns;
}

function drain(turns: FairTurns<Item>, count = Number.POSITIVE_INFINITY): Item[] {
  const served: Item[] = [];
  while (served.length < count) {
    const taken = turns.take();
    if (!taken) break;
    served.push(taken.item);
  }
  return served;
}

const keysOf = (items: readonly Item[]) => items.map(({ key }) => key).join("");
const namesOf = (items: readonly Item[]) => items.map(({ name }) => name).join(" ");

describe("turns", () => {
  const cases: readonly [what: string, waiting: string, served: string][] = [
    ["one key is served as it came", "a1 a2 a3", "a1 a2 a3"],
    ["keys alternate", "a1 a2 a3 b1 b2 c1", "c1 b1 a1 b2 a2 a3"],
    ["what is shared is cost, not the number of items", "a1:300 a2:300 b1 b2 b3 b4", "b1 b2 a1 b3 b4 a2"],
    ["within a key a higher rank goes first", "a1 a2:100:1 a3:100:1 b1", "b1 a2 a3 a1"],
  ];
  test.each(cases)("%s", (_what, waiting, served) => {
    const turns = turnsOf(...named(...waiting.split(" ")));
    expect(namesOf(turns.order())).toBe(served);
    expect(namesOf(drain(turns))).toBe(served);
  });

  test("without waiting items there is no next one", () => {
    expect(turnsOf().peek()).toBeUndefined();
    expect(turnsOf().take()).toBeUndefined();
  });

  test("two equal keys alternate, and each has its items in their order", () => {
    const items = Array.from({ length: 10 }, () => [item("a"), item("b")]).flat();
    const served = drain(turnsOf(...items));
    expect(keysOf(served)).toBe("ab".repeat(10));
    expect(served).toEqual(items);
  });

  test("cost is shared, in numbers", () => {
    const items = Array.from({ length: 60 }, () => [item("cheap", 10), item("dear", 50)]).flat();
    const served = drain(turnsOf(...items), 60);
    expect(served.filter(({ key }) => key === "cheap")).toHaveLength(50);
    expect(served.filter(({ key }) => key === "dear")).toHaveLength(10);
  });

  test("cost is shared by weight", () => {
    const items = Array.from({ length: 60 }, () => [item("a", 10, 1), item("b", 10, 3)]).flat();
    const served = drain(turnsOf(...items), 40);
    expect(served.filter(({ key }) => key === "b")).toHaveLength(30);
  });

  test("an item that costs billions of turns takes no time to find", () => {
    expect(keysOf(drain(turnsOf(item("a", 2e13), item("b", 1e13))))).toBe("ba");
  });

  test("the order that is foretold is the order of serving", () => {
    const waiting = named("a1:70", "a2:10", "b1:55", "c1:200", "b2:31", "a3:90");
    expect(turnsOf(...waiting).order()).toEqual(drain(turnsOf(...waiting)));
  });

  test("a key that comes later waits for one turn of each at most", () => {
    const turns = turnsOf(...Array.from({ length: 50 }, () => item("flood")));
    drain(turns, 5);
    turns.push(item("late"));
    expect(keysOf(drain(turns, 2))).toContain("late");
  });

  test("a key that returns repeatedly gets every second turn beside a flood, and no more", () => {
    const turns = turnsOf(...Array.from({ length: 20 }, () => item("a")));
    let served = "";
    for (let index = 0; index < 10; index += 1) {
      if (turns.itemsOf("b").length === 0) turns.push(item("b"));
      served += keysOf(drain(turns, 1));
    }
    expect(served).toBe("bababababa");
  });

  test("a key that had nothing waiting has saved nothing up", () => {
    const turns = turnsOf(item("a", 35), ...Array.from({ length: 60 }, () => item("b")));
    drain(turns, 40);
    for (let index = 0; index < 20; index += 1) turns.push(item("a"));
    expect(drain(turns, 10).filter(({ key }) => key === "a").length).toBeLessThanOrEqual(6);
  });

  test("five keys with items of all sizes get the same cost", () => {
    const turns = new FairTurns<Item>();
    const sizes = [20, 50, 100, 400, 1000];
    const costs = new Map<string, number>();
    const refill = (key: string) => turns.push(item(key, sizes["abcde".indexOf(key)]));
    for (const key of "abcde") for (let index = 0; index < 3; index += 1) refill(key);
    for (let total = 0; total < 200_000; ) {
      const [served] = drain(turns, 1);
      if (!served) throw new Error("nobody waits");
      refill(served.key);
      total += served.cost;
      costs.set(served.key, (costs.get(served.key) ?? 0) + served.cost);
    }
    const all = [...costs.values()];
    const sum = all.reduce((a, b) => a + b, 0);
    expect(sum ** 2 / (all.length * all.reduce((a, b) => a + b * b, 0))).toBeGreaterThan(0.99);
  });
});

describe("leaving", () => {
  test("an item that is taken out is gone, once", () => {
    const [gone, stays, other] = [item("a"), item("a"), item("b")];
    const turns = turnsOf(gone, stays, other);
    expect([turns.remove(gone), turns.remove(gone)]).toEqual([true, false]);
    expect(turns.itemsOf("a")).toEqual([stays]);
    expect([turns.size, turns.itemsOf("x").length]).toEqual([2, 0]);
    turns.remove(stays);
    expect([turns.items(), turns.keys()]).toEqual([[other], ["b"]]);
  });

  test("the turns of a removed item's wait go to no key", () => {
    const turns = turnsOf(...named("a1:10000", ...Array.from({ length: 5 }, (_, index) => `a2${index}`)));
    for (let index = 0; index < 50; index += 1) {
      for (const each of named("b")) turns.push(each);
      turns.take();
    }
    const [giant] = turns.itemsOf("a");
    if (giant) turns.remove(giant);
    for (const each of named("b1", "b2", "b3")) turns.push(each);
    expect(namesOf(drain(turns))).toBe("a20 b1 a21 b2 a22 b3 a23 a24");
  });

  test("nothing is lost or repeated, whatever comes and goes", () => {
    const random = seededRandom(12);
    const turns = turnsOf();
    const waiting = new Set<Item>();
    for (let step = 0; step < 4_000; step += 1) {
      const draw = random();
      if (draw < 0.5) {
        const cost = 1 + Math.floor(random() * 100);
        const added = item(`k${Math.floor(random() * 6)}`, cost, 1 + Math.floor(random() * 3));
        waiting.add(added);
        turns.push(added);
      } else if (draw < 0.6) {
        const [first] = waiting;
        if (first) expect(turns.remove(first)).toBe(waiting.delete(first));
      } else {
        const next = turns.peek();
        expect(turns.take()?.item).toBe(next);
        expect(next === undefined).toBe(waiting.size === 0);
        if (next) expect(waiting.delete(next)).toBe(true);
      }
      expect(turns.size).toBe(waiting.size);
    }
  });
});

describe("putting back", () => {
  const random = seededRandom(3);
  const some = () =>
    Array.from({ length: 20 }, () => item("abcd"[Math.floor(random() * 4)] ?? "a", 10 + Math.floor(random() * 4) * 10));

  test("an item is next again, without advantage or loss for other keys", () => {
    for (let run = 0; run < 50; run += 1) {
      const items = some();
      const expected = drain(turnsOf(...items));
      const turns = turnsOf(...items);
      const served: Item[] = [];
      for (let taken = turns.take(); taken; taken = turns.take()) {
        if (random() < 0.5) taken.putBack();
        else served.push(taken.item);
      }
      expect(served).toEqual(expected);
    }
  });

  test("several items are put back as they were", () => {
    for (let run = 0; run < 50; run += 1) {
      const items = some();
      const expected = drain(turnsOf(...items));
      const turns = turnsOf(...items);
      const taken: Taken<Item>[] = [];
      for (let count = 0; count < 7; count += 1) taken.push(...[turns.take()].flatMap((one) => one ?? []));
      for (const one of taken.toReversed()) one.putBack();
      expect(drain(turns)).toEqual(expected);
    }
  });

  test("a key whose later item was served before an earlier one was put back pays for the later one only", () => {
    const turns = turnsOf(...named("a1", "a2:40", "a3", "b1", "b2"));
    const passedOver = turns.take();
    expect(passedOver?.item.name).toBe("b1");
    expect(namesOf(drain(turns, 1))).toBe("a1");
    passedOver?.putBack();
    // Key b has spent no turn: it precedes a, which has paid 100 and owes 40 for its next item.
    expect(namesOf(drain(turns))).toBe("b1 a2 b2 a3");
  });

  test("a key whose own later item was served meanwhile pays for that one only", () => {
    const turns = turnsOf(...named("a1:30", "a2:30", "a3:30", "b1:100"));
    const passedOver = turns.take();
    expect([passedOver?.item.name, namesOf(drain(turns, 1))]).toEqual(["a1", "a2"]);
    passedOver?.putBack();
    expect(namesOf(turns.order())).toBe("a1 a3 b1");
    expect(turns.size).toBe(3);
  });
});
