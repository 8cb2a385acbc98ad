import { afterEach, expect, test } from "vitest";
import { WorkThreads } from "../../../../../deploy/runtime/threads/work-threads.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** A program that answers each message with itself. */
const ECHO = new URL(
  `data:text/javascript,${encodeURIComponent(
    'import { parentPort } from "node:worker_threads"; parentPort.on("message", (text) => parentPort.postMessage({ text }));',
  )}`,
);
const LARGE = { limitMs: 60_000, large: true };
const SMALL = { limitMs: 60_000 };

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
  const run = async (text: string, terms: typeof SMALL, tenant = "t") => {
    await one.run(text, { tenant, signal: new AbortController().signal }, terms);
    done.push(text);
  };
  /** Does large work of 100 ms, during which others wait for so long. */
  const large = async (ms: number) => {
    const ended = run("large", LARGE);
    clock.jump(100);
    waited.ms += ms;
    await ended;
    done.length = 0;
  };
  return { clock, done, run, large };
}

test("behind large work for which others had to wait, the next large work of its tenant stands aside, and no other", async () => {
  const { clock, done, run, large } = threads();
  await large(20);
  const aside = run("aside", LARGE);
  await run("of another one", LARGE, "other");
  expect(done).toEqual(["of another one"]);
  await clock.advance(159);
  expect(done).toHaveLength(1);
  await clock.advance(1);
  await aside;
  expect(done).toEqual(["of another one", "aside"]);
});

test("small work does not stand aside, nor does large work behind some for which nobody had to wait", async () => {
  const { done, run, large } = threads();
  await large(0);
  await large(20);
  await run("small", SMALL);
  expect(done).toEqual(["small"]);
});

test("nobody stands aside for more than two seconds", async () => {
  const { clock, done, run, large } = threads();
  await large(1_000);
  await clock.advance(799);
  const aside = run("aside", LARGE);
  await clock.advance(1);
  await aside;
  expect(done).toEqual(["aside"]);
});
