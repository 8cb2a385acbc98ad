import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { FlushQueue, nextHoldMs } from "../../../../../gateway/http/answer/flush-queue.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

test.each([
  ["busy: a little longer", 0, 0.7, 1, 2],
  ["busy: no longer than may be", 19, 1, 1, 20],
  ["busy after a long look: no more than one step", 0, 1, 100, 2],
  ["neither busy nor calm: as before", 10, 0.55, 1, 10],
  ["calm: less long", 10, 0.4, 1, 6],
  ["calm for several looks: less long for each", 10, 0.1, 2, 2],
  ["calm: not at all in the end", 3, 0, 1, 0],
])("%s", (_what, holdMs, utilisation, looks, expected) => {
  expect(nextHoldMs(holdMs, utilisation, looks, 20)).toBe(expected);
});

function queued(maxJoinMs: number, busy: { share: number }) {
  const clock = new VirtualClock();
  const queue = new FlushQueue({ maxJoinMs, clock, utilisation: () => busy.share });
  let flushed = 0;
  const stream = {
    flush: () => {
      flushed += 1;
    },
  };
  return { clock, queue, stream, flushed: () => flushed };
}

test("an idle process writes in the same tick", async () => {
  const { queue, stream, flushed, clock } = queued(20, { share: 0.1 });
  await clock.advance(1_000);
  queue.add(stream);
  await turn();
  expect(flushed()).toBe(1);
});

test("a busy process delays writes that are not urgent, up to the limit, until it is idle", async () => {
  const busy = { share: 0.9 };
  const { queue, stream, flushed, clock } = queued(20, busy);
  for (let looks = 0; looks < 30; looks += 1) {
    await clock.advance(50);
    queue.add(stream);
    await clock.advance(20);
    await turn();
    expect(flushed()).toBe(looks + 1);
  }
  expect(queue.holdMs()).toBe(20);
  queue.add(stream);
  queue.add(stream, true);
  await turn();
  expect(flushed()).toBe(31);
  await clock.advance(20);
  expect(flushed()).toBe(32);
  busy.share = 0.1;
  await clock.advance(1_000);
  queue.add(stream);
  await turn();
  expect([queue.holdMs(), flushed()]).toEqual([0, 33]);
});

test("a process that was busy before a pause delays no writes after it", async () => {
  const busy = { share: 0.9 };
  const { queue, clock } = queued(20, busy);
  for (let looks = 0; looks < 10; looks += 1) {
    await clock.advance(50);
    queue.holdMs();
  }
  expect(queue.holdMs()).toBe(20);
  busy.share = 0;
  await clock.advance(10_000);
  expect(queue.holdMs()).toBe(0);
});

test("with a limit of zero no write is delayed, however busy the process is", async () => {
  const { queue, stream, flushed, clock } = queued(0, { share: 1 });
  for (let looks = 0; looks < 5; looks += 1) {
    await clock.advance(50);
    queue.add(stream);
    await turn();
  }
  expect(flushed()).toBe(5);
});
