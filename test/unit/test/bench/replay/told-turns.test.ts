import { expect, test } from "vitest";
import { EventQueue } from "../../../../bench/replay/event-queue.ts";
import type { Router } from "../../../../bench/replay/routers/router.ts";
import { tellEachOther } from "../../../../bench/replay/told-turns.ts";

test("each gateway hears the newest of every other one, and when that was told", async () => {
  const time = new EventQueue();
  const heard: string[] = [];
  const gateway = (name: string): Router => ({
    send: () => {},
    peers: {
      tell: () => ({ served: 0, wanted: 0, dueSeconds: null, sessions: [], conversations: [] }),
      hear: (other, _told, atMs) => heard.push(`${name} of ${other} at ${time.nowMs() - atMs}`),
    },
  });
  // One of another project tells nothing, and hears nothing.
  tellEachOther([gateway("0"), gateway("1"), { send: () => {} }], time);
  await time.settleUntil(2_500);
  expect(heard.map((line) => line.replace(/ at .*/, ""))).toEqual(["1 of 0", "0 of 1"]);
  await time.settleUntil(20_000);
  expect(new Set(heard.map((line) => line.replace(/ at .*/, "")))).toEqual(new Set(["1 of 0", "0 of 1"]));
  expect(Math.max(...heard.map((line) => Number(line.split(" at ")[1])))).toBeLessThan(2_300);
});
