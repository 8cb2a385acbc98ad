import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { KeySeries } from "../../../../gateway/usage/key-series.ts";
import { KeyUsage } from "../../../../gateway/usage/key-usage.ts";
import {
  addCounts,
  NO_USE,
  type UsageBatch,
  UsageBook,
  type UsageStore,
} from "../../../../gateway/usage/usage-store.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const DAY_MS = 86_400_000;
const USED = { requests: 1, inputTokens: 100, cachedTokens: 40, outputTokens: 7 };

function usageOver(store: UsageStore, clock: VirtualClock): KeyUsage {
  return new KeyUsage({ store, clock, series: new KeySeries(new Registry(), 10, () => clock.nowMs()) });
}

/** The sum of all counts of a key. */
async function totalOf(usage: Pick<KeyUsage, "read">, keyId: string) {
  const found = await usage.read(keyId);
  return found?.entries.reduce((sum, { counts }) => addCounts(sum, counts), NO_USE);
}

/** A store that is unreachable until its mode is `answers`, and may take a batch without confirming it. */
class UnsureStore implements UsageStore {
  readonly book: UsageBook;
  readonly numbers: number[] = [];
  mode: "away" | "answers" = "away";

  constructor(clock: VirtualClock) {
    this.book = new UsageBook(clock);
  }

  async add(batch: UsageBatch): Promise<boolean> {
    this.numbers.push(batch.number);
    return this.mode === "answers" && this.book.add(batch);
  }

  read(keyId: string) {
    return this.book.read(keyId);
  }
}

test("use is kept by day and model, and a request without a model counts in the day only", async () => {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const usage = usageOver(new UsageBook(clock), clock);
  usage.count("one", "svc-qwen", USED);
  usage.count("one", "svc-qwen", USED);
  usage.count("one", undefined, { refused: 1 });
  usage.count("two", "svc-qwen", USED);
  const found = await usage.read("one");
  const day = Math.floor(clock.wallMs() / DAY_MS);
  expect(found?.entries).toEqual([
    {
      keyId: "one",
      day,
      model: "svc-qwen",
      counts: { requests: 2, refused: 0, inputTokens: 200, cachedTokens: 80, outputTokens: 14 },
    },
    { keyId: "one", day, model: "", counts: { ...NO_USE, refused: 1 } },
  ]);
  expect((await usage.read("nobody"))?.entries).toEqual([]);
});

test("a batch of uncertain delivery is sent again under its number, and the rest after it", async () => {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const store = new UnsureStore(clock);
  const usage = usageOver(store, clock);
  usage.count("one", "m", USED);
  await clock.advance(1_000);
  usage.count("one", "m", USED);
  await clock.advance(2_000);
  expect(await usage.read("one")).toBeUndefined();
  expect(new Set(store.numbers)).toEqual(new Set([1]));
  store.mode = "answers";
  expect(await totalOf(usage, "one")).toMatchObject({ requests: 2, inputTokens: 200 });
  expect(store.numbers.slice(-2)).toEqual([1, 2]);
});

test("a store gets one batch a second, and none without new counts", async () => {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const store = new UnsureStore(clock);
  store.mode = "answers";
  const usage = usageOver(store, clock);
  for (let at = 0; at < 50; at += 1) usage.count("one", "m", USED);
  expect(store.numbers).toEqual([]);
  await clock.advance(1_000);
  expect(store.numbers).toEqual([1]);
  await clock.advance(60_000);
  expect(store.numbers).toEqual([1]);
  usage.count("one", "m", USED);
  await usage.close();
  expect(store.numbers).toEqual([1, 2]);
});

test("a book drops entries older than 31 days, and more when it is full, but never today", async () => {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const book = new UsageBook(clock, 40);
  const usage = usageOver(book, clock);
  usage.count("one", "m", USED);
  await usage.read("one");
  await clock.advance(31 * DAY_MS);
  expect((await usage.read("one"))?.entries).toEqual([]);
  for (let key = 0; key < 30; key += 1) usage.count(`old${key}`, "m", USED);
  await usage.read("one");
  await clock.advance(DAY_MS);
  for (let key = 0; key < 60; key += 1) usage.count(`new${key}`, "m", USED);
  const today = Math.floor(clock.wallMs() / DAY_MS);
  expect(await usage.read("old0")).toEqual({ sinceMs: today * DAY_MS, entries: [] });
  expect((await usage.read("new0"))?.entries).toHaveLength(1);
});
