import { expect, test } from "vitest";
import { StopOrders } from "../../../../../deploy/runtime/process/stop-orders.ts";

test.each([
  ["the first signal lets running work complete, and a simultaneous one has no effect", 500, false],
  ["an order that comes half a second after the first ends all at once", 501, true],
])("%s", (_what, laterMs, endsAll) => {
  let nowMs = 1_000;
  const orders = new StopOrders(() => nowMs);
  const stopFirst: boolean[] = [];
  orders.stopNow.addEventListener("abort", () => stopFirst.push(orders.stop.aborted));
  orders.order();
  expect([orders.stop.aborted, orders.stopNow.aborted]).toEqual([true, false]);
  nowMs += laterMs;
  orders.order();
  expect([orders.stopNow.aborted, stopFirst]).toEqual([endsAll, endsAll ? [true] : []]);
});
