import { expect, test } from "vitest";
import { type Claim, Queue } from "../../../../../engine/backends/llama/slots/queue.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const LONG_MS = 60_000;
const never = () => new AbortController().signal;
const clock = new VirtualClock();
const queueOf = (maxLength: number, maxWaitMs = LONG_MS) => new Queue<string, string>({ maxLength, maxWaitMs, clock });
const claim = (fields: Partial<Claim> = {}): Claim => ({ tenant: "t", priority: 0, cost: 1, ...fields });
const reason = (wanted: string) => expect.objectContaining({ reason: wanted });

test("a higher priority is served first, equal ones in order of arrival", () => {
  const queue = queueOf(4);
  for (const [want, priority] of [
    ["a", 0],
    ["b", 5],
    ["c", 5],
    ["d", -1],
  ] as const)
    queue.join(want, claim({ priority }), never());
  const served: string[] = [];
  queue.serve((want) => served[served.push(want) - 1]);
  expect(served).toEqual(["b", "c", "a", "d"]);
});

test("only a priority of 10 from 0 puts a request behind those of other tenants", () => {
  const order = (priority: number) => {
    const queue = queueOf(4);
    queue.join("lowered", claim({ priority, tenant: "one" }), never());
    for (const want of ["other 1", "other 2"]) queue.join(want, claim({ tenant: "other" }), never());
    const served: string[] = [];
    queue.serve((want) => served[served.push(want) - 1]);
    return served.indexOf("lowered");
  };
  expect([order(-9), order(-10)]).toEqual([0, 2]);
});

test("a request that waits too long is refused", async () => {
  const queue = queueOf(1, 1);
  const news = queue.join("a", claim(), never()).next();
  const turnedAway = expect(news).rejects.toEqual(reason("QUEUE_FULL"));
  await clock.advance(1);
  await turnedAway;
  expect(queue.length).toBe(0);
});

test("in a full queue the tenant with the most requests loses its last to another tenant", async () => {
  const queue = queueOf(3);
  const flood = ["a", "b", "c"].map((want) => queue.join(want, claim({ tenant: "flood" }), never()));
  const quiet = queue.join("q", claim({ tenant: "quiet" }), never());
  await expect(flood[2]?.next()).rejects.toEqual(reason("QUEUE_FULL"));
  expect([quiet.position, queue.length]).toEqual([0, 3]);
  expect(() => queue.join("d", claim({ tenant: "flood" }), never())).toThrow(reason("QUEUE_FULL"));
});
