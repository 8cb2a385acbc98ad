import { describe, expect, test } from "vitest";
import { AdaptiveLifo, type Wait } from "../../../../../gateway/upstream/queue/adaptive-lifo.ts";
import { DEFAULT_ADAPTIVE_LIFO } from "../../../../support/gateway/default-settings.ts";

const LONG: Wait = { ms: 5_001, turns: 2.5 };

const lifo = () => new AdaptiveLifo(DEFAULT_ADAPTIVE_LIFO);

/** Ends so many generations, of `running` that run at once. */
function end(queue: AdaptiveLifo, generations: number, running = 1): void {
  for (let index = 0; index < generations; index += 1) queue.ended(running);
}

/** A queue that is served newest first from 10,000 ms on. */
function standing(): AdaptiveLifo {
  const queue = lifo();
  queue.served(LONG, 0);
  end(queue, 3);
  queue.served(LONG, 10_000);
  return queue;
}

describe("a queue is served newest first", () => {
  test("when for ten seconds and three turns nobody was served who had waited less than five seconds and two turns", () => {
    const queue = lifo();
    queue.served(LONG, 6_000);
    end(queue, 24, 8);
    queue.served(LONG, 15_999);
    expect(queue.newestFirst).toBe(false);
    queue.served(LONG, 16_000);
    expect(queue.newestFirst).toBe(true);
  });

  test("and never before three generations have ended for each one that runs, however long that takes", () => {
    const queue = lifo();
    queue.served(LONG, 0);
    end(queue, 23, 8);
    queue.served(LONG, 600_000);
    expect(queue.newestFirst).toBe(false);
    end(queue, 1, 8);
    queue.served(LONG, 600_001);
    expect(queue.newestFirst).toBe(true);
  });

  test("until nobody waits, however quickly the newest are served", () => {
    const queue = standing();
    queue.served({ ms: 0, turns: 0 }, 20_000);
    expect(queue.newestFirst).toBe(true);
    queue.emptied();
    expect(queue.newestFirst).toBe(false);
    queue.served(LONG, 20_002);
    expect(queue.newestFirst).toBe(false);
  });
});

test.each([
  ["one who had waited less was served", (queue: AdaptiveLifo) => queue.served({ ms: 5_000, turns: 9 }, 9_000)],
  [
    "one was served who had waited for few generations, however long these took",
    (queue: AdaptiveLifo) => queue.served({ ms: 300_000, turns: 2 }, 9_000),
  ],
  ["nobody waited for a moment", (queue: AdaptiveLifo) => queue.emptied()],
])("it begins anew when %s", (_what, happens) => {
  const queue = lifo();
  queue.served(LONG, 0);
  end(queue, 3);
  happens(queue);
  queue.served(LONG, 10_000);
  expect(queue.newestFirst).toBe(false);
  end(queue, 3);
  queue.served(LONG, 20_000);
  expect(queue.newestFirst).toBe(true);
});

test.each<[string, Wait, boolean]>([
  ["has waited too long", { ms: 5_001, turns: 1 }, true],
  ["has not waited for long", { ms: 5_000, turns: 7 }, false],
  ["has seen no generation end for each that runs", { ms: 29_000, turns: 0.9 }, false],
])("newest first, who %s gives up: %o is %s", (_what, wait, givesUp) => {
  expect(standing().isTooLong(wait)).toBe(givesUp);
  expect(lifo().isTooLong(wait)).toBe(false);
});
