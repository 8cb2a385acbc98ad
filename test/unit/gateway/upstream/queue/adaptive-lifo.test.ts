import { describe, expect, test } from "vitest";
import { AdaptiveLifo } from "../../../../../gateway/upstream/queue/adaptive-lifo.ts";
import { DEFAULT_ADAPTIVE_LIFO } from "../../../../support/gateway/default-settings.ts";

const lifo = () => new AdaptiveLifo(DEFAULT_ADAPTIVE_LIFO);

describe("a queue is served newest first", () => {
  test("when for ten seconds nobody was served who had waited less than five", () => {
    const queue = lifo();
    queue.look(5_001, 6_000);
    queue.served(5_001);
    queue.look(6_000, 15_999);
    expect(queue).toMatchObject({ newestFirst: false, maxWaitMs: Number.POSITIVE_INFINITY });
    queue.look(6_000, 16_000);
    expect(queue).toMatchObject({ newestFirst: true, maxWaitMs: 5_000 });
  });

  test("until nobody waits, however quickly the newest are served", () => {
    const queue = lifo();
    queue.look(6_000, 0);
    queue.look(6_000, 10_000);
    queue.served(0);
    queue.look(10, 20_000);
    expect(queue.newestFirst).toBe(true);
    queue.look(undefined, 20_001);
    expect(queue.newestFirst).toBe(false);
    queue.look(6_000, 20_002);
    expect(queue.newestFirst).toBe(false);
  });
});

test.each([
  ["one who had waited less was served", (queue: AdaptiveLifo) => queue.served(5_000)],
  ["nobody waited for a moment", (queue: AdaptiveLifo) => queue.look(undefined, 9_000)],
])("it begins anew when %s", (_what, happens) => {
  const queue = lifo();
  queue.look(6_000, 0);
  happens(queue);
  queue.look(6_000, 10_000);
  expect(queue.newestFirst).toBe(false);
  queue.look(6_000, 20_000);
  expect(queue.newestFirst).toBe(true);
});

test("those who wait long while nobody is served make it slow, too", () => {
  const queue = lifo();
  for (let nowMs = 0; nowMs <= 16_000; nowMs += 1_000) queue.look(nowMs, nowMs);
  expect(queue.newestFirst).toBe(true);
});
