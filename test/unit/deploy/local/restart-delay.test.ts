import { expect, test } from "vitest";
import { RestartDelay } from "../../../../deploy/local/supervisor.ts";

test("doubles for a process that keeps exiting, up to half a minute, and resets after a steady minute", () => {
  const delay = new RestartDelay();
  const delays = Array.from({ length: 9 }, () => delay.next(10));
  expect(delays).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  expect([delay.next(59_999), delay.next(60_000), delay.next(0)]).toEqual([30_000, 500, 1_000]);
});
