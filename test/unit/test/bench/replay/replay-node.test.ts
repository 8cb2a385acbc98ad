import { expect, test } from "vitest";
import { EventQueue } from "../../../../bench/replay/event-queue.ts";
import { PieceCaches, PieceStore } from "../../../../bench/replay/piece-cache.ts";
import { ReplayNode } from "../../../../bench/replay/replay-node.ts";

/** Prefills prompts of 120,000 and 12,000 tokens (10 s and 1 s of work), the second 2 s after the first. */
function played(prefillsAtOnce: number) {
  const time = new EventQueue();
  const store = new PieceStore();
  const caches = new PieceCaches(store, 1, 3_000_000, () => time.nowMs());
  const node = new ReplayNode({
    time,
    tiers: { caches, lower: undefined },
    cache: 0,
    prefillsAtOnce,
    onChange: () => {},
  });
  const seen: string[] = [];
  const submit = (name: string, tokens: number) => {
    const note = (what: string) => seen.push(`${time.nowMs() / 1_000} ${name} ${what}`);
    node.submit({
      prompt: {
        ...{ last: store.add(-1, tokens), tokens, outputTokens: 100, affinityKey: name, session: name },
        shape: { boundaries: [], lastTurn: undefined },
      },
      onStarted: () => note("begins"),
      onProgress: () => {},
      onFirstToken: () => note("is prefilled"),
      onFinished: (prefillMs) => note(`ends after ${prefillMs / 1_000}`),
    });
  };
  submit("long", 120_000);
  time.runUntil(2_000);
  submit("short", 12_000);
  const { queuedUncachedTokens, running, waiting } = node.report;
  time.runUntil(30_000);
  return { seen, told: { queuedUncachedTokens, running, waiting }, prefilledMs: node.use.prefillMs };
}

test("a node with one prefill at a time lets the short prompt wait for the long one", () => {
  expect(played(1)).toEqual({
    seen: [
      ...["0 long begins", "10 long is prefilled", "10 short begins", "11 short is prefilled"],
      ...["12 long ends after 10", "13 short ends after 1"],
    ],
    told: { queuedUncachedTokens: 108_000, running: 1, waiting: 1 },
    prefilledMs: 11_000,
  });
});

test("concurrent prefills share the speed of the node", () => {
  expect(played(2)).toEqual({
    seen: [
      ...["0 long begins", "2 short begins", "4 short is prefilled", "6 short ends after 2"],
      ...["11 long is prefilled", "13 long ends after 11"],
    ],
    told: { queuedUncachedTokens: 108_000, running: 2, waiting: 0 },
    prefilledMs: 11_000,
  });
});
