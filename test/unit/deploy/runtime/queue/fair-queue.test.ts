import { describe, expect, test } from "vitest";
import { FairLane } from "../../../../../deploy/runtime/queue/fair-lane.ts";
import { type FairItem, FairQueue, type PriorityClass } from "../../../../../deploy/runtime/queue/fair-queue.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

type Item = FairItem & { readonly name: string };

const item = (key: string, given: Partial<FairItem> = {}): Item => ({ key, cost: 100, ...given, name: key });

const CLASSES: Record<string, PriorityClass> = { H: "high", L: "low" };

/** "a1:50:2" is item a1 of key a, which costs 50 and has rank 2; "H" or "L" in front sets its class. */
function named(words: string): Item[] {
  return words.split(" ").map((word) => {
    const [name = "", cost, rank] = word.split(":");
    const priorityClass = CLASSES[name.charAt(0)];
    const plain = priorityClass ? name.slice(1) : name;
    const given = { key: plain.charAt(0), rank: Number(rank ?? 0), cost: Number(cost ?? 100), name: plain };
    return priorityClass ? { ...given, priorityClass } : given;
  });
}

function queueOf(...items: readonly Item[]): FairQueue<Item> {
  const queue = new FairQueue<Item>();
  for (const each of items) queue.push(each);
  return queue;
}

function drain(queue: FairQueue<Item>, count = Number.POSITIVE_INFINITY): Item[] {
  const served: Item[] = [];
  while (served.length < count) {
    const next = queue.next();
    if (!next) break;
    served.push(next);
  }
  return served;
}

const namesOf = (items: Iterable<Item>) => Array.from(items, ({ name }) => name).join(" ");
const countOf = (items: readonly Item[], key: string) => items.filter((one) => one.key === key).length;

describe("the order of service", () => {
  test.each([
    ["one key is served in order of arrival", "a1 a2 a3", "a1 a2 a3"],
    ["keys alternate", "a1 a2 a3 b1 b2 c1", "c1 b1 a1 b2 a2 a3"],
    ["cost is shared, not the number of items", "a1:300 a2:300 b1 b2 b3 b4", "b1 b2 a1 b3 b4 a2"],
    ["a higher rank precedes within its key", "a1 a2:100:1 a3:100:1 b1", "b1 a2 a3 a1"],
    ["an urgent class precedes", "a1 La2 Ha3 Ha4", "a3 a4 a1 a2"],
    ["an item that costs 1e13 needs no rounds", "a1:2e13 b1:1e13", "b1 a1"],
    ["mixed costs", "a1:70 a2:10 b1:55 c1:200 b2:31 a3:90", "b1 a1 a2 b2 a3 c1"],
  ])("the order of service in a fair queue %s", (_name, waiting, served) => {
    const queue = queueOf(...named(waiting));
    expect(namesOf(queue.order())).toBe(served);
    expect(namesOf(drain(queue))).toBe(served);
  });

  test("keys set aside are skipped in every class, also during a pass", () => {
    const queue = queueOf(...named("Ha1 a2 Lb1 La3 c1 c2"));
    expect(namesOf(queue.order(new Set("a")))).toBe("c1 c2 b1");
    const aside = new Set<string>();
    const passed: Item[] = [];
    for (const one of queue.order(aside)) {
      passed.push(one);
      aside.add(one.key);
    }
    expect(namesOf(passed)).toBe("a1 c1 b1");
    expect(queue.size).toBe(6);
  });

  test("cost is shared by weight", () => {
    const items = Array.from({ length: 60 }, () => [item("a"), item("b", { weight: 3 })]).flat();
    expect(countOf(drain(queueOf(...items), 40), "b")).toBe(30);
  });

  test("five keys with items of all sizes get the same cost", () => {
    const queue = queueOf();
    const sizes = [20, 50, 100, 400, 1000];
    const costs = new Map<string, number>();
    const refill = (key: string) => queue.push(item(key, { cost: sizes["abcde".indexOf(key)] ?? 0 }));
    for (const key of "abcde") for (let index = 0; index < 3; index += 1) refill(key);
    for (let total = 0; total < 200_000; ) {
      const [served] = drain(queue, 1);
      if (!served) throw new Error("no item waits");
      refill(served.key);
      total += served.cost;
      costs.set(served.key, (costs.get(served.key) ?? 0) + served.cost);
    }
    const all = [...costs.values()];
    expect(Math.min(...all) / Math.max(...all)).toBeGreaterThan(0.9);
  });
});

describe("a key that was idle saves no credit", () => {
  test("a key that was idle saves no credit, nor does the credit of a removed item go to another", () => {
    const queue = queueOf(...named("a1:10000 a20 a21 a22 a23 a24"));
    for (let index = 0; index < 50; index += 1) {
      queue.push(item("b"));
      queue.next();
    }
    const [giant] = queue.itemsOf("a");
    if (giant) queue.remove(giant);
    for (const each of named("b1 b2 b3")) queue.push(each);
    expect(namesOf(drain(queue))).toBe("a20 b1 a21 b2 a22 b3 a23 a24");
  });
});

describe("classes", () => {
  test.each([
    ["default", "high", 15 / 80],
    ["low", "high", 5 / 80],
    ["low", "default", 5 / 15],
  ] as const)("%s does not starve beside a flood of %s: it gets its share of the cost", (quiet, flood, share) => {
    const queue = queueOf();
    let ofQuiet = 0;
    for (let index = 0; index < 1_000; index += 1) {
      while (queue.itemsOf("flood").length < 2) queue.push(item("flood", { priorityClass: flood }));
      while (queue.itemsOf("quiet").length < 2) queue.push(item("quiet", { priorityClass: quiet }));
      ofQuiet += countOf(drain(queue, 1), "quiet");
    }
    expect(ofQuiet / (1_000 - ofQuiet)).toBeCloseTo(share, 2);
  });

  test("an idle class saves no credit", () => {
    const queue = queueOf();
    const flood = () => item("flood", { priorityClass: "high" });
    for (let index = 0; index < 100; index += 1) {
      queue.push(flood());
      queue.next();
    }
    queue.push(item("quiet"));
    const served = Array.from({ length: 6 }, () => {
      queue.push(flood());
      return queue.next()?.key;
    });
    expect(served).toEqual(["flood", "flood", "flood", "flood", "flood", "quiet"]);
  });
});

describe("eviction candidates of a full queue", () => {
  test("eviction candidates of a full queue are the items of the largest key, least urgent last", () => {
    const flood = named("Hf1 f2 f3 Hf4");
    expect(namesOf(queueOf(...flood, item("quiet")).crowdBeside("new"))).toBe("f1 f4 f2 f3");
  });

  test("eviction candidates of a full queue are none if that key would then have fewer items than the newcomer's", () => {
    const queue = queueOf(...named("a1 a2 b1"));
    expect(["a", "b", "c"].map((key) => namesOf(queue.crowdBeside(key)))).toEqual(["", "", "a1 a2"]);
  });
});

test("no item is lost or repeated under random arrivals, removals and services", () => {
  const random = seededRandom(12);
  const queue = queueOf();
  const waiting = new Set<Item>();
  for (let step = 0; step < 4_000; step += 1) {
    const draw = random();
    if (draw < 0.5) {
      const given = { cost: 1 + Math.floor(random() * 100), weight: 1 + Math.floor(random() * 3) };
      const added = item(`k${Math.floor(random() * 6)}`, given);
      waiting.add(added);
      queue.push(added);
    } else if (draw < 0.6) {
      const [first] = waiting;
      if (first) expect([queue.remove(first), queue.remove(first)]).toEqual([waiting.delete(first), false]);
    } else {
      const next = queue.next();
      expect(next !== undefined && waiting.delete(next)).toBe(next !== undefined);
      if (!next) expect(waiting.size).toBe(0);
    }
    expect([queue.size, queue.items().length, queue.sizeOf("default")]).toEqual(Array(3).fill(waiting.size));
  }
});

/** Enters the lane with work named by key and number; `leave` ends it. */
function lane(...names: readonly string[]) {
  const fair = new FairLane();
  const log: string[] = [];
  const enter = (name: string) => fair.enter({ key: name.charAt(0), cost: 1 }, () => log.push(name));
  const leaves = new Map(names.map((name) => [name, enter(name)]));
  return { log, leave: (name = "") => leaves.get(name)?.() };
}

test("one piece of work runs at a time, and the keys alternate", () => {
  const { log, leave } = lane("a1", "a2", "a3", "b1");
  for (let count = 1; count <= 4; count += 1) {
    expect(log.length).toBe(count);
    leave(log.at(-1));
  }
  expect(log).toEqual(["a1", "b1", "a2", "a3"]);
});

test("work that leaves while it waits is skipped, and leaving twice admits only one", () => {
  const { log, leave } = lane("a", "b", "c", "d");
  for (const name of ["b", "a", "a", "b"]) leave(name);
  expect(log).toEqual(["a", "c"]);
});
