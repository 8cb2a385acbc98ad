import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../deploy/runtime/time/clock.ts";
import { ProcessUsage } from "../../../../gateway/overload/process-usage.ts";
import { until } from "../../../support/until.ts";

/** Keeps the event loop from turning. */
function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test("a blocked event loop shows as delay and as use, once", async () => {
  const usage = new ProcessUsage(systemClock);
  onTestFinished(() => usage.close());
  usage.read();
  block(300);
  let seen = usage.read();
  await until(() => {
    const { eventLoopDelayMs } = usage.read();
    if (eventLoopDelayMs > seen.eventLoopDelayMs) seen = { ...seen, eventLoopDelayMs };
    return seen.eventLoopDelayMs > 250;
  }, "the delay is seen");
  expect(seen.eventLoopUtilization).toBeGreaterThan(0.5);
  expect(usage.read().eventLoopDelayMs).toBe(0);
});
