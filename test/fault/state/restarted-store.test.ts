import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { Fleet, healthy, SHORT, show } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { HAS_REDIS, MISSING_SERVERS, NO_REDIS, RedisProcess, SERVERS } from "../../support/redis/redis-process.ts";
import { sharedKeys } from "../../support/redis/shared-keys.ts";
import { SHIPPED_USER } from "../../support/redis/shipped-store.ts";

/* The store with the shipped users and arguments (deploy/kubernetes/gateway), which is stopped under load. */

const fleet = new Fleet();
const GATEWAYS = 4;
const PASSWORD = "b3BlbnNlc2FtZS9vcGVu+A==";

if (MISSING_SERVERS.length > 0) show("not on this machine, and so not tried", { servers: MISSING_SERVERS });

async function setUp(server: string) {
  const store = await RedisProcess.shipped(server, PASSWORD);
  fleet.onEnd(() => store.end());
  const { config, done: keys, remove } = sharedKeys(`redis://${SHIPPED_USER}:${PASSWORD}@${store.address}`);
  fleet.onEnd(remove);
  const nodes = await Promise.all([fleet.engine("node0", SHORT), fleet.engine("node1", SHORT)]);
  const cluster = { endpoints: nodes.map(({ address }) => ({ address })) };
  return { store, config, cluster, keys, drained: nodes[1]?.address ?? "" };
}

type ReplyBody = { readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } };

/** Sends requests to all gateways in turn, four at a time, until `isOver`. Resolves to the reported usage. */
async function load(gateways: readonly GatewayProcess[], key: string, isOver: (sent: number) => boolean) {
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hello" }] };
  const sum = { answered: 0, tokens: 0, sent: 0 };
  const ask = async () => {
    while (!isOver(sum.sent)) {
      const gateway = gateways[sum.sent % gateways.length];
      if (!gateway) throw new Error("there are some");
      sum.sent += 1;
      const { usage } = (await (await gateway.post("/v1/chat/completions", body, undefined, key)).json()) as ReplyBody;
      if (!usage) continue;
      sum.answered += 1;
      sum.tokens += usage.prompt_tokens + usage.completion_tokens;
    }
  };
  await Promise.all(Array.from({ length: 4 }, ask));
  return sum;
}

/** Resolves to the day's tokens and requests of a key in the store. */
async function used(store: RedisProcess, gateway: GatewayProcess, id: string) {
  const day = String(await store.ask("HGET", `svc:limits:{${id}}`, "d|tokensPerDay")).split(" ")[1];
  const response = await fetch(`${gateway.adminUrl}/keys/${id}/usage`);
  const { total } = (await response.json()) as { total: { requests: number } };
  return { tokens: Number(day), requests: total.requests };
}

describe.skipIf(!HAS_REDIS)(`a store that is stopped${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  test.each(SERVERS)(
    "a store that is stopped keeps keys, their audit log, usage, quotas and orders (%s)",
    async (server) => {
      const { store, config, cluster, keys, drained } = await setUp(server);
      const { key, id } = JSON.parse(
        await keys("create", "--json", "--name", "kept", "--models", "all", "--tokens-per-day", "1000000000"),
      );
      const gateways = await Promise.all(Array.from({ length: GATEWAYS }, () => fleet.gateway(cluster, config)));
      const [first] = gateways;
      if (!first) throw new Error("there are some");
      for (const gateway of gateways) for (const { address } of cluster.endpoints) await healthy(gateway, address);
      const order = await fetch(`${first.adminUrl}/endpoint/${drained}/drain`, { method: "POST" });
      expect(order.status).toBe(200);
      const sum = await load(gateways, key, (sent) => sent >= 40);
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        await becomes(async () => (await used(store, first, id)).requests === sum.answered, "all is counted");
        expect((await used(store, first, id)).tokens).toBe(sum.tokens);
        // Writes that wait for the disk would be lost with the process.
        const persistence = async () => String(await store.ask("INFO", "persistence"));
        await becomes(async () => (await persistence()).includes("aof_buffer_length:0"), "all is written");
        const before = sum.tokens;
        let over = false;
        const during = load(gateways, key, () => over);
        await store.stop(signal);
        for (const gateway of gateways)
          await becomes(async () => (await gateway.stat("svc_ratelimit_store_up")) === 0, "it is known to be away");
        await store.startAgain();
        for (const gateway of gateways)
          await becomes(async () => (await gateway.stat("svc_ratelimit_store_up")) === 1, "it is back");
        over = true;
        const more = await during;
        expect(more.answered).toBe(more.sent);
        sum.answered += more.answered;
        sum.tokens += more.tokens;
        // With `appendfsync everysec` a killed process may not have written its last commands while the disk was busy.
        const least = signal === "SIGTERM" ? sum.tokens : before;
        await becomes(async () => (await used(store, first, id)).tokens >= least, "what was used counts");
        expect((await used(store, first, id)).tokens).toBeLessThanOrEqual(sum.tokens);
        expect(JSON.parse(await keys("list", "--json"))).toMatchObject([{ id, name: "kept" }]);
        expect(await keys("doctor")).not.toMatch(/^(error|warning)/m);
        for (const gateway of gateways)
          await becomes(
            async () => (await gateway.stat("svc_keystore_stale")) === 0,
            "its keys are those of the store",
          );
        const later = await fleet.gateway(cluster, config);
        expect((await later.models(key)).status).toBe(200);
        await becomes(async () => (await later.health(drained))?.endsWith("/draining") === true, "the order stands");
        show(`kept over ${signal}`, { server, ...sum });
        await later.end();
      }
    },
  );
});
