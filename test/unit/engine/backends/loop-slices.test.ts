import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { LoopSlices } from "../../../../engine/backends/loop-slices.ts";

test("each tick of the event loop runs one slice in total", async () => {
  const slices = new LoopSlices();
  let done = 0;
  for (let slice = 0; slice < 10; slice += 1) void slices.next(`t${slice}`).then(() => (done += 1));
  for (let loops = 1; loops <= 12; loops += 1) {
    const before = done;
    await turn();
    expect(done - before).toBeLessThanOrEqual(1);
  }
  expect(done).toBe(10);
});

test("tenants alternate, however many slices one of them requests", async () => {
  const slices = new LoopSlices();
  const order: string[] = [];
  const slice = (tenant: string) => slices.next(tenant).then(() => void order.push(tenant));
  const all = [...Array.from({ length: 50 }, () => slice("flood")), slice("a"), slice("b"), slice("a")];
  await Promise.all(all);
  expect(order.lastIndexOf("a")).toBeLessThan(8);
  expect(order.indexOf("b")).toBeLessThan(5);
});
