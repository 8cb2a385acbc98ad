import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { Fleet, show, size } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/* Gateways of several hosts that count the limits of keys in one store. */

const fleet = new Fleet();
const GATEWAYS = size(3, 4);
/** Answers that outlast a test. */
const ENDLESS = { tokensPerSecond: 2, answerTokens: { min: 5_000, max: 5_000 }, slots: 400 };
const QUICK = { tokensPerSecond: 2_000, answerTokens: { min: 1, max: 9 }, slots: 400 };

/** Gateways with one store and one key file, in front of one node. */
async function setUp(backend: object, settings: object = {}) {
  const redis = await RedisProcess.start("--appendonly", "yes");
  fleet.onEnd(() => redis.end());
  const { address } = await fleet.engine("node", backend);
  const cluster = { endpoints: [{ address }], circuitBreakers: { maxRequestsPerEndpoint: 1_000 } };
  const state = { redis: { url: `redis://${redis.address}`, ...settings } };
  const first = await fleet.gateway(cluster, { state });
  const more = { state, keys: { file: first.keyFile } };
  const others = await Promise.all(Array.from({ length: GATEWAYS - 1 }, () => fleet.gateway(cluster, more)));
  const gateways = [first, ...others];
  const key = async (...limits: readonly string[]) => {
    const text = await createKey(first.keyFile, "--name", "limited", "--models", "all", ...limits);
    for (const gateway of gateways)
      await becomes(async () => (await gateway.models(text)).status === 200, "the key is known");
    return text;
  };
  return { redis, gateways, key };
}

function ask(gateway: GatewayProcess | undefined, key: string, stream: boolean, signal?: AbortSignal) {
  if (!gateway) throw new Error("there is no such gateway");
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hello" }], stream };
  return gateway.post("/v1/chat/completions", body, signal, key);
}

/** The day's tokens of a key in the store. */
async function usedTokens(redis: RedisProcess, key: string): Promise<number> {
  const name = `svc:limits:{${key.split("_")[2]}}`;
  return Number(String(await redis.ask("HGET", name, "d|tokensPerDay")).split(" ")[1]);
}

type ReplyBody = { readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } };

/** Sends requests to all gateways in turn, 16 at a time; resolves to the usage of the answered ones. */
async function used(gateways: readonly GatewayProcess[], key: string, count: number) {
  let [tokens, answered, next] = [0, 0, 0];
  const statuses = new Map<number, number>();
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (next < count) {
        next += 1;
        const response = await ask(gateways[next % gateways.length], key, false);
        const { usage } = (await response.json()) as ReplyBody;
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        if (!usage) continue;
        answered += 1;
        tokens += usage.prompt_tokens + usage.completion_tokens;
      }
    }),
  );
  return { tokens, answered, statuses: Object.fromEntries(statuses) };
}

describe.skipIf(!HAS_REDIS)(`limits that gateways share${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  test("of 64 concurrent requests exactly 10 pass, and the places of a killed gateway are freed", async () => {
    const { gateways, key } = await setUp(ENDLESS);
    const text = await key("--concurrency", "10");
    const left = new AbortController();
    fleet.onEnd(() => left.abort());
    // The client cancels answers whose responses are unreferenced.
    const held: Response[] = [];
    const begin = async (gateway: GatewayProcess | undefined) => {
      const response = await ask(gateway, text, true, left.signal);
      held.push(response);
      return response.status;
    };
    const sent = Array.from({ length: 64 }, async (_, at) => {
      return { at: at % GATEWAYS, status: await begin(gateways[at % GATEWAYS]) };
    });
    const answers = await Promise.all(sent);
    const running = answers.filter(({ status }) => status === 200);
    expect(running).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(54);
    const victim = running[0]?.at ?? 0;
    const freed = running.filter(({ at }) => at === victim).length;
    gateways[victim]?.process.signal("SIGKILL");
    const beganMs = performance.now();
    const alive = gateways.filter((_, at) => at !== victim);
    let back = 0;
    await becomes(async () => {
      if ((await begin(alive[back % alive.length])) === 200) back += 1;
      return back === freed;
    }, "its places are back");
    const tookMs = performance.now() - beganMs;
    expect(await begin(alive[0])).toBe(429);
    expect(held.filter(({ status }) => status === 200)).toHaveLength(10 + freed);
    show("places of a killed gateway", { freed, tookMs: Math.round(tookMs) });
    // Ten seconds are promised, of which a lease and a heartbeat take six; a busy machine takes longer.
    expect(tookMs).toBeLessThan(30_000);
  });

  // Refusal is also tested on the store itself.
  test.each(size(0, 1) === 1 ? (["share", "refuse"] as const) : (["share"] as const))(
    "token use is counted exactly, also over an outage of the store (%s)",
    async (whenAway) => {
      const { redis, gateways, key } = await setUp(QUICK, { whenAway });
      const text = await key("--tokens-per-day", "1000000000", "--otpm", "1000000000", "--concurrency", "100");
      const awayMs = size(3_000, 30_000);
      const count = size(200, 10_000);
      const before = await used(gateways, text, count);
      expect(before.answered).toBe(count);
      await becomes(async () => (await usedTokens(redis, text)) === before.tokens, "all is counted");
      let { tokens } = before;
      const during = used(gateways, text, 40);
      await redis.stop("SIGKILL");
      const untilMs = performance.now() + awayMs;
      tokens += (await during).tokens;
      for (const gateway of gateways) {
        await becomes(async () => (await gateway.stat("svc_ratelimit_store_up")) === 0, "it is known to be away");
        const ready = await fetch(`${gateway.adminUrl}/ready`);
        expect(ready.status).toBe(200);
        expect(await ready.text()).toMatch(/^LIVE\nlimits: the shared store is unreachable; /);
      }
      const away = await used(gateways, text, 40);
      tokens += away.tokens;
      expect(away.statuses).toEqual(whenAway === "share" ? { 200: 40 } : { 503: 40 });
      await new Promise((resolve) => setTimeout(resolve, untilMs - performance.now()));
      await redis.startAgain();
      for (const gateway of gateways)
        await becomes(async () => (await gateway.stat("svc_ratelimit_store_up")) === 1, "it is back");
      tokens += (await used(gateways, text, 40)).tokens;
      await becomes(async () => (await usedTokens(redis, text)) === tokens, "all is counted once");
      expect(gateways[0]?.process.log.some(({ msg }) => String(msg).includes("is unreachable"))).toBe(true);
    },
  );
});
