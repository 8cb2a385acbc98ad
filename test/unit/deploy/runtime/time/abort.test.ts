import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkAbort, onAbort, sharedAbort, waitUnlessAborted } from "../../../../../deploy/runtime/time/abort.ts";

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

test("a wait ends with the value it is given, cleans up once and leaves no listener", async () => {
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
});

test("a wait with an aborted signal resolves to undefined and cleans up, if it had begun", async () => {
  const leave = new AbortController();
  const seen: string[] = [];
  const begin = () => {
    seen.push("begun");
    return () => seen.push("cleaned");
  };
  const waited = waitUnlessAborted<string>(leave.signal, () => {
    const clean = begin();
    return () => void clean();
  });
  leave.abort();
  expect(await waited).toBeUndefined();
  expect(seen).toEqual(["begun", "cleaned"]);
  expect(await waitUnlessAborted<string>(leave.signal, () => void begin())).toBeUndefined();
  expect(seen).toEqual(["begun", "cleaned"]);
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
