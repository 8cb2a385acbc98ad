import { expect, test } from "vitest";
import { watchMemory } from "../../../../engine/node/memory-watch.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MIB = 1024 * 1024;

/** A process whose memory and load the test sets. */
function watched() {
  const clock = new VirtualClock();
  const now = { mib: 300, busy: 0.05, collections: 0 };
  const stop = watchMemory({
    clock,
    residentBytes: () => now.mib * MIB,
    utilization: () => now.busy,
    collect: () => {
      now.collections += 1;
    },
  });
  const after = async (seconds: number, set: Partial<typeof now> = {}) => {
    Object.assign(now, set);
    for (let at = 0; at < seconds; at += 10) await clock.advance(10_000);
    return now.collections;
  };
  return { after, stop };
}

test("garbage is collected once memory has grown and the loop has time, at most once a minute", async () => {
  const { after } = watched();
  expect(await after(120)).toBe(0);
  expect(await after(60, { mib: 320 })).toBe(0);
  expect(await after(60, { mib: 400, busy: 0.5 })).toBe(0);
  expect(await after(10, { busy: 0.1 })).toBe(1);
  // It has given back nothing: so much is in use.
  expect(await after(300)).toBe(1);
  expect(await after(10, { mib: 440 })).toBe(2);
  expect(await after(10, { mib: 300 })).toBe(2);
  expect(await after(30, { mib: 440 })).toBe(2);
  expect(await after(20)).toBe(3);
});

test("nothing is looked at any more once it has ended", async () => {
  const { after, stop } = watched();
  await after(60);
  stop();
  expect(await after(120, { mib: 900 })).toBe(0);
});
