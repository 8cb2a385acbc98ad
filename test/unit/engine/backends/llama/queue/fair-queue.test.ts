import { describe, expect, test } from "vitest";
import { FairQueue } from "../../../../../../engine/backends/llama/queue/fair-queue.ts";

type Item = { readonly tenant: string; readonly priority: number; readonly cost: number };
const item = (tenant: string, priority = 0, cost = 100): Item => ({ tenant, priority, cost });

function serve(queue: FairQueue<Item>): Item | undefined {
  const next = queue.next();
  if (next) queue.serve(next);
  return next;
}

test("a higher priority goes first, equals as they came", () => {
  const queue = new FairQueue<Item>();
  for (const priority of [0, -3, 5, 0, 90]) queue.push(item("a", priority));
  expect(queue.order().map(({ priority }) => priority)).toEqual([90, 5, 0, 0, -3]);
  expect([serve(queue), serve(queue), serve(queue)].map((one) => one?.priority)).toEqual([90, 5, 0]);
});

describe("beside an endless flood of a higher priority", () => {
  const cases: readonly [priority: number, flood: number, share: number][] = [
    [0, 1, 0.15],
    [-1, 1, 0.05],
    [-1, 0, 0.05],
  ];
  test.each(cases)("priority %i does not starve beside %i", (priority, flood, share) => {
    const queue = new FairQueue<Item>();
    const served: (number | undefined)[] = [];
    for (let i = 0; i < 1000; i += 1) {
      while (queue.count("flood") < 2) queue.push(item("flood", flood));
      while (queue.count("quiet") < 2) queue.push(item("quiet", priority));
      served.push(serve(queue)?.priority);
    }
    const quiet = served.filter((one) => one === priority).length;
    expect(quiet / (1000 - quiet)).toBeCloseTo(share, 2);
  });

  test("nothing is saved up while nobody waits", () => {
    const queue = new FairQueue<Item>();
    for (let i = 0; i < 100; i += 1) {
      queue.push(item("flood", 1));
      serve(queue);
    }
    queue.push(item("quiet"));
    for (let i = 0; i < 5; i += 1) {
      queue.push(item("flood", 1));
      expect(serve(queue)?.tenant).toBe("flood");
    }
  });
});

describe("who gives way when there is no room", () => {
  test("is the last of the tenant with the most, the least urgent first", () => {
    const queue = new FairQueue<Item>();
    const flood = [item("flood", 1), item("flood"), item("flood"), item("flood", 1)];
    for (const one of [...flood, item("quiet")]) queue.push(one);
    expect(queue.givesWayTo("new")).toBe(flood[2]);
  });

  test("is nobody where the newcomer's tenant would then have as many", () => {
    const queue = new FairQueue<Item>();
    for (const tenant of ["a", "a", "b"]) queue.push(item(tenant));
    expect(queue.givesWayTo("a")).toBeUndefined();
    expect(queue.givesWayTo("b")).toBeUndefined();
    expect(queue.givesWayTo("c")?.tenant).toBe("a");
  });
});
