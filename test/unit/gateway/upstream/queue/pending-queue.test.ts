import { describe, expect, test } from "vitest";
import { type Pending, PendingQueue } from "../../../../../gateway/upstream/queue/pending-queue.ts";
import { exponential, seededRandom } from "../../../../support/seeded-random.ts";

const request = (key: string, change: Partial<Pending<number>> = {}): Pending<number> => ({
  key,
  keyId: key,
  maxPendingPerKey: undefined,
  underWay: false,
  priorityClass: "default",
  weight: 1,
  cost: 2_000,
  queuedMs: 0,
  deadlineMs: 30_000,
  hasFixedDeadline: false,
  rank: 0,
  value: 0,
  ...change,
});

function queueWith({ maxPending = 512, maxPendingPerKey = 32 } = {}) {
  const queue = new PendingQueue<number>(maxPendingPerKey);
  queue.setMaxPending(maxPending);
  return queue;
}

function drain(queue: PendingQueue<number>, count = Number.POSITIVE_INFINITY): Pending<number>[] {
  const served: Pending<number>[] = [];
  while (served.length < count) {
    const next = queue.next();
    if (!next) break;
    served.push(next);
  }
  return served;
}

const share = (served: readonly Pending<number>[], key: string) => served.filter((each) => each.key === key).length;

describe("limits", () => {
  test("a key's own limit replaces the common one, also when it is larger", () => {
    const queue = queueWith({ maxPendingPerKey: 2 });
    const push = (key: string, maxPendingPerKey: number) => queue.push(request(key, { maxPendingPerKey })).queued;
    expect([push("less", 1), push("less", 1)]).toEqual([true, false]);
    expect([push("more", 3), push("more", 3), push("more", 3), push("more", 3)]).toEqual([true, true, true, false]);
  });

  test("keys of one tenant are counted separately", () => {
    const queue = queueWith({ maxPendingPerKey: 1 });
    const push = (keyId: string) => queue.push(request("tenant", { keyId }));
    expect([push("a").queued, push("b").queued]).toEqual([true, true]);
    expect(push("a")).toMatchObject({ queued: false, limit: "key" });
  });

  test("each priority class is counted", () => {
    const queue = queueWith();
    queue.push(request("a", { priorityClass: "low" }));
    queue.push(request("a"));
    queue.push(request("b"));
    expect([queue.sizeOf("high"), queue.sizeOf("default"), queue.sizeOf("low"), queue.size]).toEqual([0, 2, 1, 3]);
  });

  test("a key's limit spans all classes", () => {
    const queue = queueWith({ maxPendingPerKey: 2 });
    queue.push(request("a"));
    queue.push(request("a", { priorityClass: "low" }));
    expect(queue.push(request("a"))).toEqual({ queued: false, limit: "key" });
    expect(queue.push(request("b"))).toMatchObject({ queued: true });
  });

  test("in a full queue the largest key's request with the earliest deadline is dropped", () => {
    const queue = queueWith({ maxPending: 3 });
    const hurried = request("flood", { deadlineMs: 5_000 });
    for (const each of [request("flood"), hurried, request("flood")]) queue.push(each);
    expect(queue.push(request("small"))).toEqual({ queued: true, dropped: hurried });
    expect(queue.size).toBe(3);
  });

  test("a full and fair queue has no room", () => {
    const queue = queueWith({ maxPending: 2 });
    queue.push(request("a"));
    queue.push(request("b"));
    expect(queue.push(request("c"))).toEqual({ queued: false, limit: "cluster" });
    expect(queue.push(request("a"))).toMatchObject({ queued: false, limit: "cluster" });
  });

  test("a flood of one key displaces none of its own requests", () => {
    const queue = queueWith({ maxPending: 2 });
    queue.push(request("a"));
    queue.push(request("a"));
    expect(queue.push(request("a"))).toMatchObject({ queued: false });
  });
});

describe("leaving", () => {
  test("a cancelled request is removed at once", () => {
    const queue = queueWith();
    const gone = request("a");
    queue.push(gone);
    expect(queue.cancel(gone)).toBe(true);
    expect(queue.cancel(gone)).toBe(false);
    expect(queue.size).toBe(0);
    expect(queue.next()).toBeUndefined();
  });

  test("a request past its deadline is removed once", () => {
    const queue = queueWith();
    const [soon, later] = [request("a", { deadlineMs: 10 }), request("b", { deadlineMs: 20 })];
    queue.push(later);
    queue.push(soon);
    expect(queue.expire(9)).toEqual([]);
    expect(queue.expire(10)).toEqual([soon]);
    expect(queue.expire(25)).toEqual([later]);
  });
});

describe("order", () => {
  test("a more urgent class comes first, and a less urgent one still gets its share", () => {
    const queue = queueWith({ maxPendingPerKey: 512 });
    for (let index = 0; index < 100; index += 1) {
      for (const priorityClass of ["low", "default", "high"] as const) queue.push(request("a", { priorityClass }));
    }
    const served = drain(queue, 100).map(({ priorityClass }) => priorityClass);
    expect(served[0]).toBe("high");
    const count = (name: string) => served.filter((each) => each === name).length;
    expect([count("high"), count("default"), count("low")]).toEqual([80, 15, 5]);
  });

  test("a key of twice the weight gets twice the tokens", () => {
    const queue = queueWith();
    for (let index = 0; index < 30; index += 1) {
      queue.push(request("a"));
      queue.push(request("b", { weight: 2 }));
    }
    const served = drain(queue, 30);
    expect(share(served, "b")).toBe(20);
  });
});

describe("fairness in virtual time", () => {
  test("five equal keys with different request sizes get equal tokens: Jain's index ≥ 0.95", () => {
    const random = seededRandom(21);
    const queue = queueWith();
    const keys = ["a", "b", "c", "d", "e"];
    const sizes = new Map(keys.map((key, index) => [key, 1_500 * 2 ** index]));
    const refill = () => {
      for (const key of keys) {
        for (;;) {
          const cost = 1_024 + Math.round(exponential(sizes.get(key) ?? 0, random));
          if (!queue.push(request(key, { cost, deadlineMs: 1e9 })).queued) break;
        }
      }
    };
    const served = new Map<string, number>();
    let busyMs = 0;
    // Sixty seconds of an engine that processes 50,000 tokens per second.
    while (busyMs < 60_000) {
      refill();
      const next = queue.next();
      if (!next) throw new Error("the queue ran dry");
      served.set(next.key, (served.get(next.key) ?? 0) + next.cost);
      busyMs += next.cost / 50;
    }
    const tokens = keys.map((key) => served.get(key) ?? 0);
    const sum = tokens.reduce((all, each) => all + each, 0);
    const squares = tokens.reduce((all, each) => all + each ** 2, 0);
    expect(sum ** 2 / (keys.length * squares)).toBeGreaterThanOrEqual(0.95);
  });

  test.each([
    ["small ones", 1_100],
    ["middle ones", 20_000],
    ["large ones", 200_000],
  ])("a key that floods the queue with %s delays another by at most two service times", (_, cost) => {
    const SERVICE_MS = 400;
    const queue = queueWith();
    const refill = (nowMs: number) => {
      while (queue.push(request("flood", { cost, queuedMs: nowMs, deadlineMs: 1e9 })).queued);
    };
    const waits: number[] = [];
    let nextAskMs = 0;
    // One slot; the other key sends a request once a second.
    for (let nowMs = 0; nowMs < 120_000; nowMs += SERVICE_MS) {
      expect(queue.expire(nowMs)).toEqual([]);
      refill(nowMs);
      while (nextAskMs <= nowMs) {
        queue.push(request("other", { cost, queuedMs: nowMs, deadlineMs: 1e9, value: nextAskMs }));
        nextAskMs += 1_000;
      }
      const next = queue.next();
      if (next) queue.served(nowMs);
      if (next?.key === "other") waits.push(nowMs - next.value);
    }
    expect(waits.length).toBeGreaterThan(100);
    expect(Math.max(...waits)).toBeLessThanOrEqual(2 * SERVICE_MS);
  });
});

test("requests that could not be served return to their positions", () => {
  const queue = queueWith();
  const items = [request("a"), request("a"), request("b", { priorityClass: "high" }), request("b")];
  for (const each of items) queue.push(each);
  const first = drain(queue, 3);
  queue.putBack(first);
  expect(queue.size).toBe(4);
  expect(drain(queue, 3)).toEqual(first);
});

test("a lower limit keeps requests that already wait", () => {
  const queue = queueWith();
  for (const key of ["a", "b", "c"]) queue.push(request(key));
  queue.setMaxPending(2);
  expect(queue.size).toBe(3);
  expect(queue.push(request("d"))).toMatchObject({ queued: false, limit: "cluster" });
  queue.setMaxPending(4);
  expect(queue.push(request("d"))).toMatchObject({ queued: true });
});

describe("expected wait of one more request", () => {
  /** A queue in which `waiting` requests remain after one was served at each of the moments. */
  function servedAt(momentsMs: readonly number[], waiting: number): PendingQueue<number> {
    const queue = queueWith({ maxPendingPerKey: 100 });
    for (let index = 0; index < momentsMs.length + waiting; index += 1) queue.push(request("a"));
    for (const nowMs of momentsMs) {
      const item = queue.next();
      if (item) queue.served(nowMs);
    }
    return queue;
  }

  test("is undefined before two were served in a row", () => {
    expect(servedAt([], 10).drainMs(0)).toBeUndefined();
    expect(servedAt([0], 10).drainMs(0)).toBeUndefined();
    const idle = servedAt([0], 0);
    idle.push(request("a"));
    const late = idle.next();
    if (late) idle.served(60_000);
    expect(idle.drainMs(60_000)).toBeUndefined();
  });

  test("is one interval per waiting request, and one more", () => {
    expect(servedAt([0, 200, 400, 600], 9).drainMs(600)).toBeCloseTo(2_000, 6);
  });

  test("is shorter where several are served at a time", () => {
    const moments = Array.from({ length: 60 }, (_, index) => Math.floor(index / 4) * 1_000);
    const estimate = servedAt(moments, 0).drainMs(14_000) ?? Number.NaN;
    expect(estimate).toBeGreaterThan(150);
    expect(estimate).toBeLessThan(350);
  });

  test("grows while a stalled queue stands", () => {
    expect(servedAt([0, 100, 200], 1).drainMs(5_200)).toBe(10_000);
  });

  test("does not grow while no request waits", () => {
    expect(servedAt([0, 100, 200], 0).drainMs(5_200)).toBe(100);
  });

  test("soon drops a slow past", () => {
    const moments = [0, 10_000, ...Array.from({ length: 40 }, (_, index) => 10_100 + index * 100)];
    expect(servedAt(moments, 0).drainMs(14_000)).toBeLessThan(200);
  });
});

describe("an answer under way", () => {
  const queueWith = (...items: readonly Pending<number>[]) => {
    const queue = new PendingQueue<number>(32);
    queue.setMaxPending(2);
    for (const item of items) queue.push(item);
    return queue;
  };

  test("precedes all new requests of any class, in fair order among its kind", () => {
    const high = request("a", { priorityClass: "high", value: 1 });
    const first = request("b", { underWay: true, value: 2 });
    const second = request("b", { underWay: true, value: 3 });
    const third = request("c", { underWay: true, value: 4 });
    const queue = queueWith(high, first, second, third);
    expect(queue.order().at(-1)).toBe(high);
    const served = [1, 2, 3, 4].map(() => queue.next()?.value);
    expect(served.at(-1)).toBe(1);
    expect(served.slice(0, 2).sort()).toEqual([2, 4]);
  });

  test("is refused by no limit, and takes no room from new requests", () => {
    const queue = queueWith(...Array.from({ length: 40 }, (_, value) => request("a", { underWay: true, value })));
    expect(queue.size).toBe(40);
    expect(queue.push(request("b"))).toEqual({ queued: true, dropped: undefined });
    expect(queue.push(request("c"))).toEqual({ queued: true, dropped: undefined });
    expect(queue.push(request("d"))).toMatchObject({ queued: false, limit: "cluster" });
  });

  test("that could not be served is put back, leaves, and expires as all others", () => {
    const item = request("a", { underWay: true });
    const other = request("b");
    const queue = queueWith(item, other);
    const taken = [queue.next(), queue.next()].filter((one) => one !== undefined);
    expect(queue.size).toBe(0);
    queue.putBack(taken);
    expect(queue.order()).toEqual([item, other]);
    expect(queue.expire(30_000)).toEqual([item, other]);
    expect(queue.cancel(item)).toBe(false);
  });
});

test("a deadline can be moved earlier or later", () => {
  const queue = queueWith();
  const [sooner, later] = [request("a"), request("b")];
  for (const each of [sooner, later]) queue.push(each);
  expect(queue.expire(1_000)).toEqual([]);
  queue.reschedule(sooner, 2_000);
  queue.reschedule(later, 40_000);
  expect(queue.expire(2_000)).toEqual([sooner]);
  expect(queue.expire(30_000)).toEqual([]);
  expect(queue.expire(40_000)).toEqual([later]);
});
