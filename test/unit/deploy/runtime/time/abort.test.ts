import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkAbort, onAbort, sharedAbort, sleep, waitUnlessAborted } from "../../../../../deploy/runtime/time/abort.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

test("onAbort calls once, later or at once, and not after letting go", () => {
  const leave = new AbortController();
  const called: string[] = [];
  onAbort(leave.signal, () => called.push("later"));
  onAbort(leave.signal, () => called.push("never"))();
  leave.abort();
  onAbort(leave.signal, () => called.push("at once"))();
  expect(called).toEqual(["later", "at once"]);
  expect(listeners(leave.signal)).toBe(0);
});

test("a wait ends with its value, or with undefined for an aborted signal, and cleans up once", async () => {
  const { signal } = sharedAbort();
  let cleaned = 0;
  let give: (value: string) => void = () => {};
  const waited = waitUnlessAborted<string>(signal, (resolve) => {
    give = resolve;
    return () => {
      cleaned += 1;
    };
  });
  expect(listeners(signal)).toBe(1);
  give("first");
  give("second");
  expect(await waited).toBe("first");
  expect([cleaned, listeners(signal)]).toEqual([1, 0]);
  const leave = new AbortController();
  const left = waitUnlessAborted<string>(leave.signal, () => () => {
    cleaned += 1;
  });
  leave.abort();
  expect([await left, cleaned]).toEqual([undefined, 2]);
  expect(await waitUnlessAborted<string>(leave.signal, () => expect.unreachable())).toBeUndefined();
});

test("a linked signal follows the first of its sources, with its reason, until it is released", () => {
  const one = new AbortController();
  const two = new AbortController();
  const link = linkAbort(one.signal, two.signal);
  const released = linkAbort(one.signal, two.signal);
  released.release();
  two.abort("two");
  one.abort("one");
  expect(link.signal.reason).toBe("two");
  expect(released.signal.aborted).toBe(false);
  expect(listeners(one.signal)).toBe(0);
  expect(linkAbort(two.signal).signal.reason).toBe("two");
});

test("a shared signal takes any number of followers without a warning", async () => {
  const warned: Error[] = [];
  const note = (warning: Error) => warned.push(warning);
  process.on("warning", note);
  const { signal } = sharedAbort();
  const links = Array.from({ length: 20 }, () => linkAbort(signal));
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", note);
  for (const { release } of links) release();
  expect(warned).toEqual([]);
});

test.each([
  ["when its time is over, and not before", 100, undefined],
  ["when its signal is aborted", 50, 50],
  ["at once if its signal was aborted before", 0, 0],
])("sleep ends %s, and leaves neither a listener nor a timer behind", async (_when, endsMs, leavesMs) => {
  const clock = new VirtualClock();
  const leave = new AbortController();
  if (leavesMs === 0) leave.abort();
  let awake = false;
  const slept = sleep(clock, 100, leave.signal).then(() => {
    awake = true;
  });
  if (endsMs > 0) {
    await clock.advance(endsMs - 1);
    expect([awake, listeners(leave.signal)]).toEqual([false, 1]);
    await clock.advance(1);
  }
  if (leavesMs) leave.abort();
  await slept;
  expect(listeners(leave.signal)).toBe(0);
  clock.jump(1_000);
});
