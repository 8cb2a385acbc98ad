import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../deploy/runtime/time/clock.ts";
import { ProcessUsage } from "../../../../gateway/overload/process-usage.ts";

/** Blocks the event loop. */
function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test("a blocked event loop shows as delay, once", async () => {
  const usage = new ProcessUsage(systemClock);
  onTestFinished(() => usage.close());
  usage.readDelayMs();
  block(300);
  // Before the loop has turned, too.
  expect(usage.readDelayMs()).toBeGreaterThan(240);
  await new Promise((resolve) => setImmediate(resolve));
  expect(usage.readDelayMs()).toBeLessThan(240);
});

test("a tick that was late shows at the next look", async () => {
  const usage = new ProcessUsage(systemClock);
  onTestFinished(() => usage.close());
  block(300);
  await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise((resolve) => setImmediate(resolve));
  expect(usage.readDelayMs()).toBeGreaterThan(240);
});
