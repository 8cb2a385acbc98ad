import { describe, expect, test } from "vitest";
import { type Claim, Queue } from "../../../../../engine/backends/llama/queue.ts";
import { EngineError } from "../../../../../engine/errors.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const LONG_MS = 60_000;
const never = () => new AbortController().signal;
const clock = new VirtualClock();
const queueOf = (maxLength: number, maxWaitMs = LONG_MS) => new Queue<string, string>({ maxLength, maxWaitMs, clock });
const claim = (fields: Partial<Claim> = {}): Claim => ({ tenant: "t", priority: 0, cost: 1, ...fields });
const reason = (wanted: string) => expect.objectContaining({ reason: wanted });

test("the first request is served first, and receives its grant", async () => {
  const queue = queueOf(2);
  const [first, second] = [queue.join("a", claim(), never()), queue.join("b", claim(), never())];
  queue.serve((want) => (want === "a" ? "slot" : undefined));
  expect(await first.next()).toEqual({ kind: "granted", grant: "slot" });
  expect(await second.next()).toEqual({ kind: "waiting", position: 0 });
  expect(queue.length).toBe(1);
  second.close();
});

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

test("a request beyond the queue's length is refused at once", () => {
  const queue = queueOf(1);
  const ticket = queue.join("a", claim(), never());
  expect(() => queue.join("b", claim(), never())).toThrow(reason("QUEUE_FULL"));
  ticket.close();
  expect(queue.join("b", claim(), never()).position).toBe(0);
});

test("a departing request frees its place at once, and the others move up", async () => {
  const queue = queueOf(2);
  const leave = new AbortController();
  const first = queue.join("a", claim(), leave.signal);
  const second = queue.join("b", claim(), never());
  const news = second.next();
  leave.abort();
  await expect(first.next()).rejects.toEqual(reason("CANCELLED"));
  expect(queue.length).toBe(1);
  expect(await news).toEqual({ kind: "waiting", position: 0 });
});

test("a request whose signal is already aborted does not join", () => {
  const queue = queueOf(1);
  expect(() => queue.join("a", claim(), AbortSignal.abort())).toThrow(reason("CANCELLED"));
  expect(queue.length).toBe(0);
});

test("a request that waits too long is refused", async () => {
  const queue = queueOf(1, 1);
  const news = queue.join("a", claim(), never()).next();
  const turnedAway = expect(news).rejects.toEqual(reason("QUEUE_FULL"));
  await clock.advance(1);
  await turnedAway;
  expect(queue.length).toBe(0);
});

test("a heartbeat reaches all waiting requests", async () => {
  const queue = queueOf(2);
  const tickets = [queue.join("a", claim(), never()), queue.join("b", claim(), never())];
  const news = tickets.map((ticket) => ticket.next());
  queue.beat();
  expect(await Promise.all(news)).toEqual([
    { kind: "waiting", position: 0 },
    { kind: "waiting", position: 1 },
  ]);
});

describe("a closed ticket", () => {
  test("returns a grant that was not used", () => {
    const queue = queueOf(1);
    const ticket = queue.join("a", claim(), never());
    queue.serve(() => "slot");
    expect(ticket.close()).toBe("slot");
  });

  test("leaves the queue", () => {
    const queue = queueOf(1);
    expect(queue.join("a", claim(), never()).close()).toBeUndefined();
    expect(queue.length).toBe(0);
  });
});

test("closing the queue refuses all waiting requests", async () => {
  const queue = queueOf(2);
  const tickets = [queue.join("a", claim(), never()), queue.join("b", claim(), never())];
  queue.close(new EngineError("ENGINE_DOWN", "Bye."));
  for (const ticket of tickets) await expect(ticket.next()).rejects.toEqual(reason("ENGINE_DOWN"));
});

test("in a full queue the tenant with the most requests loses its last to another tenant", async () => {
  const queue = queueOf(3);
  const flood = ["a", "b", "c"].map((want) => queue.join(want, claim({ tenant: "flood" }), never()));
  const quiet = queue.join("q", claim({ tenant: "quiet" }), never());
  await expect(flood[2]?.next()).rejects.toEqual(reason("QUEUE_FULL"));
  expect([quiet.position, queue.length]).toEqual([0, 3]);
  expect(() => queue.join("d", claim({ tenant: "flood" }), never())).toThrow(reason("QUEUE_FULL"));
});

describe.each([1, 4])("beside a tenant that floods %i slots with 200 requests", (slots) => {
  const SERVICE_MS = 1000;

  test("another tenant waits under two service times, and a cancelled request costs no service", async () => {
    const queue = new Queue<string, number>({ maxLength: 256, maxWaitMs: 10 * 60_000, clock });
    const free = Array.from({ length: slots }, (_, i) => i);
    const serveAll = () => queue.serve(() => free.shift());
    const waits: number[] = [];
    let served = 0;
    const use = async (tenant: string, signal = never()) => {
      const since = clock.nowMs();
      const ticket = queue.join(tenant, claim({ tenant, cost: 1100 }), signal);
      serveAll();
      let news = await ticket.next();
      while (news.kind === "waiting") news = await ticket.next();
      const slot = news.grant;
      if (tenant === "quiet") waits.push(clock.nowMs() - since);
      served += 1;
      await new Promise<void>((resolve) => clock.after(SERVICE_MS, resolve));
      free.push(slot);
      serveAll();
    };
    const leaving = Array.from({ length: 20 }, () => new AbortController());
    const flood = Array.from({ length: 200 }, (_, i) =>
      use("flood", i % 10 === 9 ? leaving[(i - 9) / 10]?.signal : never()),
    );
    const outcomes = Promise.allSettled(flood);
    for (const leave of leaving) leave.abort();
    for (let i = 0; i < 20; i += 1) {
      const done = use("quiet");
      await clock.advance(337);
      await clock.advance(4 * SERVICE_MS);
      await done;
    }
    expect(Math.max(...waits)).toBeLessThan(2 * SERVICE_MS);
    await clock.advance(200 * SERVICE_MS);
    const failed = (await outcomes).filter(({ status }) => status === "rejected");
    expect([failed.length, served, queue.length]).toEqual([20, 200, 0]);
  });
});
