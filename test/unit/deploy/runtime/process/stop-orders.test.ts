import { expect, test } from "vitest";
import { StopOrders } from "../../../../../deploy/runtime/process/stop-orders.ts";

function ordered() {
  const time = { nowMs: 1_000 };
  const orders = new StopOrders(() => time.nowMs);
  return { orders, time, told: () => [orders.stop.aborted, orders.stopNow.aborted] };
}

test("the first signal lets running work complete, and a simultaneous one has no effect", () => {
  const { orders, time, told } = ordered();
  expect(told()).toEqual([false, false]);
  orders.order();
  time.nowMs += 500;
  orders.order();
  expect(told()).toEqual([true, false]);
});

test("an order that comes half a second after the first ends all at once", () => {
  const { orders, time, told } = ordered();
  orders.order();
  time.nowMs += 501;
  orders.order();
  expect(told()).toEqual([true, true]);
});

test("stop is aborted before stopNow", () => {
  const { orders, told } = ordered();
  const seen: boolean[] = [];
  orders.stopNow.addEventListener("abort", () => seen.push(orders.stop.aborted));
  orders.orderNow();
  expect(seen).toEqual([true]);
  expect(told()).toEqual([true, true]);
});
