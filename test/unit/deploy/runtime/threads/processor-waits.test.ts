import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { expect, test } from "vitest";
import { ProcessorWaits } from "../../../../../deploy/runtime/threads/processor-waits.ts";

const SILENT = !existsSync(`/proc/self/task/${process.pid}/schedstat`);
const BUSY = "const until = Date.now() + 2_000; process.stdout.write('.'); while (Date.now() < until);";

/** Keeps this thread busy for so many milliseconds. */
function work(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

test.skipIf(SILENT)(
  `a thread that has to share its processor has waited${SILENT ? " (this system does not say so)" : ""}`,
  async () => {
    const waits = new ProcessorWaits([process.pid]);
    const others = Array.from({ length: availableParallelism() }, () =>
      spawn(process.execPath, ["-e", BUSY], { stdio: ["ignore", "pipe", "ignore"] }),
    );
    await Promise.all(others.map(({ stdout }) => once(stdout, "data")));
    work(200);
    const waitedMs = waits.sinceLastMs();
    for (const other of others) other.kill();
    expect(waitedMs).toBeGreaterThan(0);
    expect(waitedMs).toBeLessThan(60_000);
    waits.close();
    waits.close();
    expect(waits.totalMs()).toBe(0);
  },
);

test("threads of which nothing is said have never waited", () => {
  expect(new ProcessorWaits([2 ** 30]).sinceLastMs()).toBe(0);
  expect(new ProcessorWaits([]).sinceLastMs()).toBe(0);
});
