import { afterEach, expect, test } from "vitest";
import { WorkThreads } from "../../../../../deploy/runtime/threads/work-threads.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** A program that answers each message with itself. */
const ECHO = new URL(
  `data:text/javascript,${encodeURIComponent(
    'import { parentPort } from "node:worker_threads"; parentPort.on("message", (text) => parentPort.postMessage({ text }));',
  )}`,
);
const TERMS = { limitMs: 60_000 };

const opened: WorkThreads<string, { readonly text: string; readonly hasGrown?: boolean }>[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

/** Threads during whose work those who serve everybody wait for `waited.ms` in all. */
function threads() {
  const clock = new VirtualClock();
  const waited = { ms: 0 };
  const one = new WorkThreads<string, { readonly text: string; readonly hasGrown?: boolean }>({
    ...{ clock, program: ECHO, threads: 2, maxHeapMiB: 64, restMs: 60_000, waitedMs: () => waited.ms },
  });
  opened.push(one);
  const done: string[] = [];
  const run = async (text: string, tenant = "t") => {
    await one.run(text, { tenant, signal: new AbortController().signal }, TERMS);
    done.push(text);
  };
  /** Does work of so many milliseconds, during which others wait for `waitedMs`. */
  const work = async (ms: number, waitedMs: number) => {
    const ended = run("work");
    clock.jump(ms);
    waited.ms += waitedMs;
    await ended;
    done.length = 0;
  };
  /** Returns for how long the tenant's next work stands aside, in whole milliseconds. */
  const asideMs = async () => {
    const beganMs = clock.nowMs();
    const next = run("next");
    // What may begin is done before another tenant's work is.
    await run("of another one", "other");
    while (!done.includes("next")) {
      await clock.advance(1);
      await run("of another one", "other");
    }
    await next;
    return clock.nowMs() - beganMs;
  };
  return { clock, done, run, work, asideMs };
}

test("behind work for which others had to wait, the next work of its tenant stands aside, and no other", async () => {
  const { clock, done, run, work } = threads();
  await work(250, 20);
  const aside = run("aside");
  await run("of another one", "other");
  expect(done).toEqual(["of another one"]);
  await clock.advance(159);
  expect(done).toHaveLength(1);
  await clock.advance(1);
  await aside;
  expect(done).toEqual(["of another one", "aside"]);
});

test("work stands aside the longer the more its tenant has used of late, behind none for which nobody had to wait", async () => {
  const nobodyWaited = threads();
  await nobodyWaited.work(1_000, 0);
  expect(await nobodyWaited.asideMs()).toBe(0);
  const { work, asideMs } = threads();
  await work(25, 10);
  expect(await asideMs()).toBe(8);
  await work(225, 10);
  expect(await asideMs()).toBeGreaterThan(72);
});

test("nobody stands aside for more than five seconds", async () => {
  const { work, asideMs } = threads();
  await work(2_000, 2_000);
  expect(await asideMs()).toBe(5_000);
});
