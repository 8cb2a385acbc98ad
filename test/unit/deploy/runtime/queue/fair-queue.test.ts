import { describe, expect, test } from "vitest";
import type { PriorityClass } from "../../../../../deploy/runtime/queue/class-share.ts";
import { type FairItem, FairQueue } from "../../../../../deploy/runtime/queue/fair-queue.ts";

const item = (key: string, priorityClass: PriorityClass = "default", cost = 100): FairItem => ({
  key,
  priorityClass,
  cost,
});

function queueOf(...items: readonly FairItem[]): FairQueue<FairItem> {
  const queue = new FairQueue<FairItem>();
  for (const each of items) queue.push(each);
  return queue;
}

function drain(queue: FairQueue<FairItem>, count = Number.POSITIVE_INFINITY): FairItem[] {
  const served: FairItem[] = [];
  while (served.length < count) {
    const next = queue.next();
    if (!next) break;
    served.push(next);
  }
  return served;
}

test("a more urgent class goes first, and within it a higher rank; equals go as they came", () => {
  const ranked = (rank: number, priorityClass: PriorityClass) => ({ ...item("a", priorityClass), rank });
  const queue = queueOf(
    ...[ranked(0, "default"), ranked(-3, "low"), ranked(5, "high"), ranked(0, "default"), ranked(90, "high")],
  );
  expect(queue.order().map(({ rank }) => rank)).toEqual([90, 5, 0, 0, -3]);
  expect(drain(queue).map(({ rank }) => rank)).toEqual([90, 5, 0, 0, -3]);
});

describe("beside an endless flood of a more urgent class", () => {
  const cases: readonly [quiet: PriorityClass, flood: PriorityClass, share: number][] = [
    ["default", "high", 15 / 80],
    ["low", "high", 5 / 80],
    ["low", "default", 5 / 15],
  ];
  test.each(cases)("the class %s does not starve beside %s", (quiet, flood, share) => {
    const queue = queueOf();
    const served: string[] = [];
    for (let index = 0; index < 1_000; index += 1) {
      while (queue.itemsOf("flood").length < 2) queue.push(item("flood", flood));
      while (queue.itemsOf("quiet").length < 2) queue.push(item("quiet", quiet));
      served.push(...drain(queue, 1).map(({ key }) => key));
    }
    const ofQuiet = served.filter((key) => key === "quiet").length;
    expect(ofQuiet / (1_000 - ofQuiet)).toBeCloseTo(share, 2);
  });

  test("an idle key saves no credit", () => {
    const queue = queueOf();
    for (let index = 0; index < 100; index += 1) {
      queue.push(item("flood", "high"));
      queue.next();
    }
    queue.push(item("quiet"));
    for (let index = 0; index < 5; index += 1) {
      queue.push(item("flood", "high"));
      expect(queue.next()?.key).toBe("flood");
    }
    queue.push(item("flood", "high"));
    expect(queue.next()?.key).toBe("quiet");
  });
});

test("items that could not be served are next again, whatever was served between them", () => {
  const items = [item("a"), item("a"), item("b", "high"), item("b"), item("c", "low")];
  const queue = queueOf(...items);
  const all = drain(queueOf(...items));
  const [first, second, third] = drain(queue, 3);
  if (!first || !second || !third) throw new Error("three are needed");
  queue.putBack([first, second, third]);
  expect([queue.size, drain(queue)]).toEqual([5, all]);
  const again = queueOf(...items);
  const [one, , three] = drain(again, 3);
  if (!one || !three) throw new Error("three are needed");
  again.putBack([one, three]);
  expect(again.size).toBe(4);
  expect(again.next()).toBe(one);
  expect(again.next()).toBe(three);
});

test("an item that left is not waiting any more, and one that was served has left", () => {
  const [gone, stays] = [item("a"), item("b")];
  const queue = queueOf(gone, stays);
  expect([queue.remove(gone), queue.remove(gone), queue.sizeOf("default")]).toEqual([true, false, 1]);
  expect(queue.next()).toBe(stays);
  expect([queue.remove(stays), queue.size, queue.next()]).toEqual([false, 0, undefined]);
});

describe("the crowd of which one gives way where there is no room", () => {
  test("is that of the key with the most, the least urgent last", () => {
    const flood = [item("flood", "high"), item("flood"), item("flood"), item("flood", "high")];
    const queue = queueOf(...flood, item("quiet"));
    const crowd = queue.crowdBeside("new");
    expect(crowd).toHaveLength(4);
    expect(crowd.at(-1)).toBe(flood[2]);
  });

  test("is empty if that key would then have fewer items than the newcomer's", () => {
    const queue = queueOf(item("a"), item("a"), item("b"));
    expect(queue.crowdBeside("a")).toEqual([]);
    expect(queue.crowdBeside("b")).toEqual([]);
    expect(queue.crowdBeside("c").at(-1)?.key).toBe("a");
  });
});

test("keys that are set aside are passed over, in every class, and have their turn afterwards", () => {
  const queue = queueOf(item("a", "high"), item("a"), item("b", "low"), item("a", "low"), item("c"));
  const aside = new Set(["a"]);
  expect([queue.next(aside), queue.next(aside), queue.next(aside)].map((next) => next?.key)).toEqual([
    "c",
    "b",
    undefined,
  ]);
  expect(drain(queue).map(({ key }) => key)).toEqual(["a", "a", "a"]);
});
