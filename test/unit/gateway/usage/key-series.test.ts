import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { KeySeries } from "../../../../gateway/usage/key-series.ts";
import { NO_USE } from "../../../../gateway/usage/usage-store.ts";

const ONE = { ...NO_USE, requests: 1, inputTokens: 5, outputTokens: 2 };
const DAY_MS = 86_400_000;

async function requests(registry: Registry): Promise<Record<string, number>> {
  const { values } = (await registry.getSingleMetric("svc_key_requests_total")?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [String(labels.key_id), value]));
}

test("as many keys as allowed have series, and all others count together", async () => {
  const registry = new Registry();
  const series = new KeySeries(registry, 2, () => 0);
  for (let key = 0; key < 1_000; key += 1) series.count(`key${key}`, ONE);
  series.count("key0", ONE);
  expect(await requests(registry)).toEqual({ key0: 2, key1: 1, other: 998 });
  const tokens = await registry.getSingleMetricAsString("svc_key_tokens_total");
  expect(tokens).toContain('svc_key_tokens_total{key_id="other",token_type="input"} 4990');
  expect(tokens.split("\n").filter((line) => line.startsWith("svc_"))).toHaveLength(9);
});

test("none has, where that is asked for", async () => {
  const registry = new Registry();
  const series = new KeySeries(registry, 0, () => 0);
  series.count("key", ONE);
  expect(await requests(registry)).toEqual({ other: 1 });
});

test("a key without use for a day gives its series to another one, and one in use does not", async () => {
  const registry = new Registry();
  let nowMs = 0;
  const series = new KeySeries(registry, 2, () => nowMs);
  series.count("idle", ONE);
  series.count("busy", ONE);
  nowMs = DAY_MS;
  series.count("busy", ONE);
  series.count("new", ONE);
  series.count("late", ONE);
  expect(await requests(registry)).toEqual({ busy: 2, new: 1, other: 1 });
});
