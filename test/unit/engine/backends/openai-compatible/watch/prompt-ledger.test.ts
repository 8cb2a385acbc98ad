import { expect, test } from "vitest";
import { LastTurns } from "../../../../../../engine/backends/openai-compatible/watch/last-turns.ts";
import { PromptLedger } from "../../../../../../engine/backends/openai-compatible/watch/prompt-ledger.ts";

function ledgerAt() {
  let now = 0;
  return {
    ledger: new PromptLedger(() => now),
    after: (ms: number) => {
      now += ms;
    },
  };
}

test("counts the uncached tokens of prompts until they are read or gone", () => {
  const { ledger } = ledgerAt();
  const first = ledger.sent({ tokens: 100_000, cachedTokens: 60_000 });
  const second = ledger.sent({ tokens: 5_000, cachedTokens: 0 });
  expect(ledger.unreadTokens).toBe(45_000);
  expect([first.position, second.position]).toEqual([0, 1]);
  first.read();
  expect(ledger.unreadTokens).toBe(5_000);
  expect(second.position).toBe(0);
  second.gone();
  second.gone();
  expect(ledger.unreadTokens).toBe(0);
});

test("separates the wait behind earlier prompts from the reading, and estimates how much of a prompt is read", () => {
  const { ledger, after } = ledgerAt();
  const first = ledger.sent({ tokens: 24_000, cachedTokens: 0 });
  after(1_000);
  // No speed is measured yet.
  expect(first.readTokens).toBe(0);
  after(1_000);
  first.read();
  ledger.speed.add({ uncachedTokens: 24_000, seconds: 2, queueSeconds: 0 });
  expect(first.times).toEqual({ queueMs: 0, prefillMs: 2_000 });

  const second = ledger.sent({ tokens: 140_000, cachedTokens: 20_000 });
  after(500);
  const third = ledger.sent({ tokens: 12_000, cachedTokens: 0 });
  expect(second.readTokens).toBe(26_000);
  expect(third.readTokens).toBe(0);
  expect(ledger.unreadTokens).toBe(126_000);
  after(9_500);
  second.read();
  after(1_000);
  third.read();
  expect(third.times).toEqual({ queueMs: 9_500, prefillMs: 1_000 });
  // A tenth of its tokens was sent beside it.
  expect(second.times).toEqual({ queueMs: 0, prefillMs: 10_000 });
});

test("the ledger does not separate the times of prompts that an engine may have read beside others", () => {
  const { ledger, after } = ledgerAt();
  const long = ledger.sent({ tokens: 24_000, cachedTokens: 0 });
  const short = ledger.sent({ tokens: 6_000, cachedTokens: 0 });
  after(1_000);
  short.read();
  expect(short.times).toEqual({ prefillMs: 1_000 });
  after(1_500);
  long.read();
  expect(long.times).toEqual({ prefillMs: 2_500 });
});

test("follows the engine's own report of a prefill where there is one", () => {
  const { ledger, after } = ledgerAt();
  ledger.sent({ tokens: 1_000, cachedTokens: 0 });
  const prompt = ledger.sent({ tokens: 9_000, cachedTokens: 0 });
  after(250);
  prompt.reported(4_000);
  expect([prompt.position, prompt.readTokens, ledger.unreadTokens]).toEqual([0, 4_000, 6_000]);
});

test("expects of a conversation what the engine found of its last prompt", () => {
  const turns = new LastTurns();
  const mark = (digest: string) => ({ digest, messages: 1 });
  const [one, two, three] = [[mark("a")], [mark("a"), mark("b")], [mark("a"), mark("b"), mark("c")]];
  expect(turns.cachedTokens("salt", one)).toBeUndefined();
  turns.answered("salt", one, 1_000, 0);
  expect(turns.cachedTokens("salt", two)).toBe(1_000);
  expect(turns.cachedTokens("other", two)).toBeUndefined();
  turns.answered("salt", two, 1_500, 960);
  expect(turns.cachedTokens("salt", three)).toBe(1_500);
  // The engine has kept little: it is not expected to keep the next one.
  turns.answered("salt", three, 2_000, 100);
  expect(turns.cachedTokens("salt", three)).toBe(100);
});

test("each data-parallel rank has a row of its own, and requests until they end", () => {
  const { ledger, after } = ledgerAt();
  const first = ledger.sent({ tokens: 50_000, cachedTokens: 10_000, rank: 2 });
  const second = ledger.sent({ tokens: 6_000, cachedTokens: 0, rank: 0 });
  expect([first.position, second.position, second.isAlone]).toEqual([0, 0, true]);
  expect(ledger.unreadTokens).toBe(46_000);
  expect([0, 1, 2].map((rank) => ledger.loadOf(rank))).toEqual([
    { unreadTokens: 6_000, requests: 1 },
    { unreadTokens: 0, requests: 0 },
    { unreadTokens: 40_000, requests: 1 },
  ]);
  after(2_000);
  second.read();
  expect(second.times).toEqual({ queueMs: 0, prefillMs: 2_000 });
  expect(ledger.loadOf(0)).toEqual({ unreadTokens: 0, requests: 1 });
  second.gone();
  first.gone();
  expect([0, 2].map((rank) => ledger.loadOf(rank).requests)).toEqual([0, 0]);
});
