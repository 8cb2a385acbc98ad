import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { administeredService } from "../../support/gateway/administered-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";
const CANARY = "canary-5b1f";

const rig = administeredService();

test("/keys/status counts the keys, with their load time", async () => {
  const { last_load: loaded, ...status } = await rig.admin.json("/keys/status");
  expect(status).toEqual({
    ...{ keys: 1, active: 1, disabled: 0, revoked: 0 },
    ...{ revision: 1, load_errors: 0, stale: false },
  });
  expect(Date.parse(String(loaded))).toBeLessThanOrEqual(Date.now());
});

test("/limits reports the state of a key's limits, and its held permits", async () => {
  const limits = ["--rpm", "60", "--otpm", "5000", "--concurrency", "3", "--tokens-per-day", "900000"];
  const perModel = ["--per-model", `${MODEL}:rpm=30,concurrency=2`];
  const key = await rig.service.createKey("--name", "limited", "--models", "all", ...limits, ...perModel);
  const id = key.split("_")[2] ?? "";
  const { passed, open } = latch();
  rig.service.play(async function* () {
    yield [started(), textStart(0), delta(0, "held ")];
    await passed;
    yield [blockEnd(0), finished()];
  });
  const response = await rig.service.post(CHAT, { stream: true }, { authorization: `Bearer ${key}` });
  const levels = await rig.admin.json(`/limits/${id}`);
  expect(levels).toMatchObject({
    key_id: id,
    limits: [
      { limit: "rpm", per: "minute", value: 60, capacity: 60 },
      { limit: "otpm", per: "minute", value: 5_000, capacity: 5_000 },
      { limit: "tokensPerDay", per: "day", value: 900_000 },
      { limit: "countRpm", value: 60, remaining: 60, full_in_ms: 0 },
      { limit: "rpm", model: MODEL, value: 30, capacity: 30 },
    ],
    places: [
      { of: "generations", limit: 3, taken: 1 },
      { of: "generations", model: MODEL, limit: 2, taken: 1 },
      { of: "counts", limit: 32, taken: 0 },
    ],
  });
  const [rpm, otpm] = (levels as { limits: { remaining: number }[] }).limits;
  expect(rpm?.remaining).toBeLessThan(60);
  expect(otpm?.remaining).toBeLessThan(5_000);
  open();
  await response.text();
  const taken = async () => ((await rig.admin.json(`/limits/${id}`)) as { places: { taken: number }[] }).places;
  await becomes(async () => (await taken()).every(({ taken }) => taken === 0), "the permits are given back");
  expect((await rig.admin.get("/limits/unknown")).status).toBe(404);
  expect(await rig.admin.text(`/limits/${CANARY}`)).not.toContain(CANARY);
});

test("/keys/{id}/usage has the use of a key by day and model, with or without limits, and its refusals", async () => {
  const key = await rig.service.createKey("--name", "user", "--models", "all");
  const id = key.split("_")[2] ?? "";
  const used = async () => (await rig.admin.json(`/keys/${id}/usage`)) as Record<string, unknown>;
  const none = { requests: 0, refused: 0, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0 };
  expect(await used()).toMatchObject({ key_id: id, total: none, days: [] });
  const headers = { authorization: `Bearer ${key}` };
  for (const body of [{}, { stream: true }]) await (await rig.service.post(CHAT, body, headers)).text();
  await becomes(async () => JSON.stringify(await used()).includes('"requests":2'), "both are counted");
  const { input_tokens, output_tokens } = (await used()).total as Record<string, number>;
  expect(input_tokens).toBeGreaterThan(0);
  expect(output_tokens).toBeGreaterThan(0);
  const [day] = (await used()).days as { readonly models: readonly Record<string, unknown>[] }[];
  expect(day?.models).toEqual([{ model: MODEL, ...((await used()).total as object) }]);
  const metrics = await rig.admin.text("/stats?filter=svc_key_");
  expect(metrics).toContain(`svc_key_tokens_total{key_id="${id}",token_type="output"} ${output_tokens}`);
  const small = await rig.service.createKey("--name", "small", "--models", "all", "--rpm", "1");
  for (const status of [200, 429])
    expect((await rig.service.post(CHAT, {}, { authorization: `Bearer ${small}` })).status).toBe(status);
  const total = async () =>
    (await rig.admin.json(`/keys/${small.split("_")[2]}/usage`)).total as Record<string, number>;
  await becomes(async () => (await total()).requests === 1, "the one that was let in counts");
  expect(await total()).toMatchObject({ requests: 1, refused: 1, input_tokens: Number(input_tokens) / 2 });
  const today = (await rig.admin.json("/keys/today")).keys as readonly object[];
  expect(today.slice(0, 2)).toMatchObject([
    { name: "small", owner: null, requests: 1, refused: 1 },
    { name: "user", key_id: id, requests: 2, output_tokens },
  ]);
  expect((await rig.admin.get("/keys/unknown/usage")).status).toBe(404);
});

test("/keys/{id}/usage counts the cost of an answer whose caller left", async () => {
  const key = await rig.service.createKey("--name", "leaver", "--models", "all");
  const headers = { authorization: `Bearer ${key}` };
  const total = async () => (await rig.admin.json(`/keys/${key.split("_")[2]}/usage`)).total as Record<string, number>;
  const { passed, open } = latch();
  rig.service.play(async function* () {
    yield [started(), textStart(0), delta(0, "one "), delta(0, "two ")];
    await passed;
  });
  const leaving = new AbortController();
  const left = await fetch(`${rig.service.gateway.baseUrl}${CHAT}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ model: MODEL, messages: [{ role: "user", content: "x" }], stream: true }),
    signal: leaving.signal,
  });
  await readBody(left).until((text) => text.includes("two "));
  expect(await total()).toMatchObject({ requests: 0 });
  leaving.abort();
  await becomes(async () => (await total()).requests === 1, "the answer that was left counts");
  expect(await total()).toMatchObject({ requests: 1, refused: 0, output_tokens: 2 });
  expect((await total()).input_tokens).toBeGreaterThan(0);
  open();
});
