import { expect, test } from "vitest";
import { EventQueue } from "../../../../bench/replay/event-queue.ts";
import { PieceCaches, PieceStore } from "../../../../bench/replay/piece-cache.ts";
import { ReplayNode } from "../../../../bench/replay/replay-node.ts";
import { replayedPrompt } from "./replayed-prompt.ts";

/** Creates a node whose prompts share nothing. */
function nodeOf() {
  const time = new EventQueue();
  const store = new PieceStore();
  const caches = new PieceCaches(store, 1, { tokens: 1_000_000 }, () => time.nowMs());
  const tiers = { caches, lower: undefined };
  const node = new ReplayNode({ time, tiers, cache: 0, prefillsAtOnce: 2, onChange: () => {}, onTokens: () => {} });
  /** Sends a prompt at once; its times are the milliseconds of its first token and of its end. */
  const send = (tokens: number, outputTokens: number) => {
    const affinityKey = `conversation ${node.report.running + node.report.waiting}`;
    const prompt = replayedPrompt(store.add(-1, tokens), tokens, { outputTokens, affinityKey });
    const times = { firstTokenMs: Number.NaN, endMs: Number.NaN };
    node.submit({
      prompt,
      onStarted: () => {},
      onProgress: () => {},
      onFirstToken: () => {
        times.firstTokenMs = time.nowMs();
      },
      onFinished: () => {
        times.endMs = time.nowMs();
      },
    });
    return times;
  };
  return { time, node, send };
}

test("a step costs itself, its sequences and its prompt tokens", async () => {
  const { time, send } = nodeOf();
  const alone = send(5_120, 100);
  await time.runUntil(10_000);
  expect(alone.firstTokenMs).toBeCloseTo(10 * (7.2 + 0.117 + 512 * 0.114), 3);
  expect(alone.endMs - alone.firstTokenMs).toBeCloseTo(100 * (7.2 + 0.117), 3);
  const short = send(100, 1);
  await time.runUntil(20_000);
  expect(short.firstTokenMs - 10_000).toBeCloseTo(7.2 + 0.117 + 100 * 0.114, 3);
});

test("a prefill slows the answers beside it, and they slow the prefill", async () => {
  const { time, node, send } = nodeOf();
  const answers = Array.from({ length: 16 }, () => send(1, 1_000));
  await time.runUntil(1_000);
  expect(node.report.running).toBe(16);
  const late = send(51_200, 1);
  await time.runUntil(60_000);
  const prefillMs = 100 * (7.2 + 17 * 0.117 + 512 * 0.114);
  expect(late.firstTokenMs - 1_000).toBeCloseTo(prefillMs, 0);
  // 100 of the steps of each answer were as long as that.
  const slowedMs = prefillMs - 100 * (7.2 + 16 * 0.117);
  for (const { firstTokenMs, endMs } of answers.slice(0, 1))
    expect(endMs - firstTokenMs).toBeCloseTo(1_000 * (7.2 + 16 * 0.117) + slowedMs, -2);
});

test("prompts that are prefilled at once share the steps, and further ones wait", async () => {
  const { time, node, send } = nodeOf();
  const [one, other] = [send(5_120, 1), send(5_120, 1)];
  const third = send(512, 1);
  expect(node.report).toMatchObject({ running: 2, waiting: 1, queuedUncachedTokens: 10_752 });
  await time.runUntil(10_000);
  expect(other.firstTokenMs).toBeCloseTo(one.firstTokenMs, 6);
  expect(one.firstTokenMs).toBeCloseTo(20 * (7.2 + 2 * 0.117 + 512 * 0.114), 3);
  expect(third.firstTokenMs).toBeGreaterThan(one.firstTokenMs);
  expect(node.use.requestMs).toBeGreaterThan(2 * one.firstTokenMs);
  expect(node.report).toMatchObject({ running: 0, waiting: 0, queuedUncachedTokens: 0 });
});
