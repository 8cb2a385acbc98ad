import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { KeySeries } from "../../../gateway/usage/key-series.ts";
import { KeyUsage } from "../../../gateway/usage/key-usage.ts";
import { addCounts, NO_USE, type UsageBatch, UsageBook, type UsageStore } from "../../../gateway/usage/usage-store.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const DAY_MS = 86_400_000;
const USED = { ...NO_USE, requests: 1, inputTokens: 100, cachedTokens: 40, outputTokens: 7 };

/** A store that is unreachable until its mode is `answers`. */
class UnsureStore implements UsageStore {
  readonly book: UsageBook;
  readonly numbers: number[] = [];
  mode: "away" | "answers" = "answers";

  constructor(clock: VirtualClock) {
    this.book = new UsageBook(clock, 40);
  }

  async add(batch: UsageBatch): Promise<boolean> {
    this.numbers.push(batch.number);
    return this.mode === "answers" && this.book.add(batch);
  }

  read(keyId: string) {
    return this.book.read(keyId);
  }
}

function setUp() {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const store = new UnsureStore(clock);
  const usage = new KeyUsage({ store, clock, series: new KeySeries(new Registry(), () => clock.nowMs()) });
  return { clock, store, usage, today: () => Math.floor(clock.wallMs() / DAY_MS) };
}

test("use is kept by day and model, and a request without a model counts in the day only", async () => {
  const { usage, today } = setUp();
  usage.count("one", "svc-qwen", USED);
  usage.count("one", "svc-qwen", USED);
  usage.count("one", undefined, { refused: 1 });
  usage.count("two", "svc-qwen", USED);
  expect((await usage.read("one"))?.entries).toEqual([
    { keyId: "one", day: today(), model: "svc-qwen", counts: addCounts(USED, USED) },
    { keyId: "one", day: today(), model: "", counts: { ...NO_USE, refused: 1 } },
  ]);
  expect((await usage.read("unknown"))?.entries).toEqual([]);
});

test("a batch of uncertain delivery is sent again under its number, and the rest after it", async () => {
  const { clock, store, usage } = setUp();
  store.mode = "away";
  usage.count("one", "m", USED);
  await clock.advance(1_000);
  usage.count("one", "m", USED);
  await clock.advance(2_000);
  expect(await usage.read("one")).toBeUndefined();
  expect(new Set(store.numbers)).toEqual(new Set([1]));
  store.mode = "answers";
  expect((await usage.read("one"))?.entries).toMatchObject([{ counts: addCounts(USED, USED) }]);
  expect(store.numbers.slice(-2)).toEqual([1, 2]);
});

test("a store gets one batch a second, and none without new counts", async () => {
  const { clock, store, usage } = setUp();
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
  const { clock, usage, today } = setUp();
  usage.count("one", "m", USED);
  await usage.read("one");
  await clock.advance(31 * DAY_MS);
  expect((await usage.read("one"))?.entries).toEqual([]);
  for (let key = 0; key < 30; key += 1) usage.count(`old${key}`, "m", USED);
  await usage.read("one");
  await clock.advance(DAY_MS);
  for (let key = 0; key < 60; key += 1) usage.count(`new${key}`, "m", USED);
  expect(await usage.read("old0")).toEqual({ sinceMs: today() * DAY_MS, entries: [] });
  expect((await usage.read("new0"))?.entries).toHaveLength(1);
});

async function requests(registry: Registry): Promise<Record<string, number>> {
  const { values } = (await registry.getSingleMetric("svc_key_requests_total")?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels.key_id), value]));
}

test.each([
  [2, { key0: 2, key1: 1, other: 998 }],
  [0, { other: 1_001 }],
])("%d keys have series, and all others count together", async (most, expected) => {
  const registry = new Registry();
  const series = new KeySeries(registry, () => 0, most);
  for (let key = 0; key < 1_000; key += 1) series.count(`key${key}`, USED);
  series.count("key0", USED);
  expect(await requests(registry)).toEqual(expected);
  const tokens = await registry.getSingleMetricAsString("svc_key_tokens_total");
  expect(tokens).toContain(`svc_key_tokens_total{key_id="other",token_type="input"} ${expected.other * 100}`);
});

test("a key without use for a day gives its series to another one, and one in use does not", async () => {
  const registry = new Registry();
  let nowMs = 0;
  const series = new KeySeries(registry, () => nowMs, 2);
  series.count("idle", USED);
  series.count("busy", USED);
  nowMs = DAY_MS;
  for (const key of ["busy", "new", "late"]) series.count(key, USED);
  expect(await requests(registry)).toEqual({ busy: 2, new: 1, other: 1 });
});
