import { expect, onTestFinished, test } from "vitest";
import { type ThreadReply, WorkThreads } from "../../deploy/runtime/threads/work-threads.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/** Answers each message with nothing. */
const program = new URL(
  `data:text/javascript,import { parentPort } from "node:worker_threads"; parentPort.on("message", () => parentPort.postMessage({}));`,
);

test("replaced threads start again at once up to the number of ready ones, and beyond it with more work", async () => {
  let started = 0;
  const onWorker = () => {
    started += 1;
  };
  process.on("worker", onWorker);
  onTestFinished(() => void process.off("worker", onWorker));
  const clock = new VirtualClock();
  const threads = new WorkThreads<number, ThreadReply>({
    ...{ clock, program, threads: 3, readyThreads: 2, maxHeapMiB: 64, restMs: 5_000 },
  });
  onTestFinished(() => threads.close());
  const wear = (...tenants: readonly string[]) =>
    Promise.all(
      tenants.map((tenant) =>
        threads.run(0, { tenant, signal: new AbortController().signal }, { limitMs: 60_000, large: true }),
      ),
    );
  await wear("a");
  expect(started).toBe(2);
  await clock.advance(5_000);
  expect(started).toBe(3);
  await wear("a", "b", "c");
  expect(started).toBe(4);
  await clock.advance(4_999);
  expect(started).toBe(4);
  await clock.advance(1);
  expect(started).toBe(6);
});
