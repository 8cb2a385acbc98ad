import { describe, expect, test } from "vitest";
import { PendingQueue, type Queued } from "../../../../../gateway/upstream/admission/pending-queue.ts";

const request = (key: string, change: Partial<Queued> = {}): Queued => ({
  ...{ key, keyId: key, maxPendingPerKey: 32, underWay: false, priorityClass: "default", weight: 1, cost: 2_000 },
  ...{ deadlineMs: 30_000, rank: 0 },
  ...change,
});

function queueOf(...items: readonly Queued[]) {
  const queue = new PendingQueue<Queued>();
  for (const item of items) queue.push(item, 512);
  return queue;
}

describe("bounds", () => {
  test("in a full queue the largest tenant makes room: its request with the earliest deadline is dropped", () => {
    const hurried = request("flood", { deadlineMs: 5_000 });
    const queue = queueOf(request("flood"), hurried, request("flood"));
    expect(queue.push(request("small"), 3)).toEqual({ dropped: hurried });
    expect(queue.size).toBe(3);
  });
});

describe("the estimated time until one more request is served", () => {
  /** Serves one request at each of the moments; `waiting` requests remain. */
  function servedAt(momentsMs: readonly number[], waiting: number) {
    const queue = queueOf(...Array.from({ length: momentsMs.length + waiting }, (_, at) => request(`${at}`)));
    for (const nowMs of momentsMs) for (const item of [...queue.order()].slice(0, 1)) queue.take(item, nowMs);
    return queue;
  }

  test.each([
    ["is undefined before two were served", [0], 10, 0, undefined],
    ["is one interval per waiting request, plus one", [0, 200, 400, 600], 9, 600, 2_000],
    ["grows while a queue does not move", [0, 100, 200], 1, 5_200, 10_000],
    ["does not grow while the queue is empty", [0, 100, 200], 0, 5_200, 100],
  ])("the estimated time until one more request is served %s", (_name, moments, waiting, nowMs, expected) => {
    const estimate = servedAt(moments, waiting).drainMs(nowMs);
    if (expected === undefined) expect(estimate).toBeUndefined();
    else expect(estimate).toBeCloseTo(expected, 6);
  });

  test("the estimated time until one more request is served is the mean interval of the last dozen, and excludes idle times", () => {
    const moments = [0, 10_000, ...Array.from({ length: 40 }, (_, at) => 10_100 + at * 100)];
    const queue = servedAt(moments, 0);
    expect(queue.drainMs(14_000)).toBeLessThan(200);
    const late = request("late");
    queue.push(late, 9);
    queue.take(late, 60_000);
    expect(queue.drainMs(60_000)).toBeLessThan(200);
  });
});
