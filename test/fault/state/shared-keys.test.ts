import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { freePort } from "../../support/free-port.ts";
import { readBody } from "../../support/http/read-until.ts";
import { Fleet, show } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { sharedKeys } from "../../support/redis/shared-keys.ts";

/* Gateways of several hosts whose keys are in one store. */

const fleet = new Fleet();
const GATEWAYS = 4;
/** Milliseconds within which a change must take effect everywhere. */
const PROMISED_MS = 1_000;
/** Tolerance factor for a busy machine. */
const PATIENCE = 10;

const ENDLESS_REQUEST = { model: "svc-qwen", max_tokens: 100_000, messages: [{ role: "user", content: "go on" }] };
/** An engine whose answers do not end during a test. */
const ENDLESS = { answerTokens: { min: 100_000, max: 100_000 }, tokensPerSecond: 20 };

/** A store with keys, and the command line with a gateway's configuration. */
async function setUp(backend: object = {}) {
  const redis = await RedisProcess.start("--appendonly", "yes");
  fleet.onEnd(() => redis.end());
  const { address } = await fleet.engine("node", backend);
  const cluster = { endpoints: [{ address }] };
  const { config, done: keys, create, remove } = sharedKeys(`redis://${redis.address}`);
  fleet.onEnd(remove);
  return { redis, cluster, config, keys, create };
}

const idOf = (key: string) => key.split("_")[2] ?? "";

/** Resolves to the milliseconds until every gateway answered the key with this status. */
async function knownAfterMs(gateways: readonly GatewayProcess[], key: string, status: number): Promise<number> {
  const beganMs = performance.now();
  const known = async (gateway: GatewayProcess) => (await gateway.models(key)).status === status;
  await Promise.all(gateways.map((gateway) => becomes(() => known(gateway), `${status} for the key`)));
  return Math.round(performance.now() - beganMs);
}

describe.skipIf(!HAS_REDIS)(`keys that gateways share${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  test("four gateways apply a key change within a second, with or without messages; an ended key ends its answers everywhere", async () => {
    const { redis, cluster, config, keys, create } = await setUp(ENDLESS);
    await create();
    const gateways = await Promise.all(Array.from({ length: GATEWAYS }, () => fleet.gateway(cluster, config)));
    const key = await create();
    const created = await knownAfterMs(gateways, key, 200);
    await keys("disable", idOf(key));
    const disabled = await knownAfterMs(gateways, key, 401);
    // Messages of changes are lost with their connections.
    await redis.ask("CLIENT", "KILL", "TYPE", "pubsub");
    await keys("enable", idOf(key));
    const enabled = await knownAfterMs(gateways, key, 200);
    show("a changed key is known everywhere after, in ms", { created, disabled, enabled });
    for (const tookMs of [created, disabled, enabled]) expect(tookMs).toBeLessThan(PROMISED_MS * PATIENCE);
    const running = await Promise.all(
      gateways.map(async (gateway) => {
        const response = await gateway.post("/v1/messages", { ...ENDLESS_REQUEST, stream: true }, undefined, key);
        const body = readBody(response);
        await body.until((text) => text.includes("text_delta"));
        return body;
      }),
    );
    await keys("revoke", idOf(key), "--kill");
    for (const body of running) expect(await body.toEnd()).toContain("revoked");
  });

  test("J6 a gateway that starts while the store is unreachable waits, logs it and is not ready", async () => {
    const { redis, cluster, config, create } = await setUp();
    const key = await create();
    await redis.stop("SIGKILL");
    const healthPort = await freePort();
    let ready = false;
    const starting = fleet.gateway(cluster, { ...config, health: { port: healthPort } }).finally(() => {
      ready = true;
    });
    const health = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${healthPort}${path}`).catch(() => undefined);
      return response && { status: response.status, text: await response.text() };
    };
    await becomes(async () => (await health("/healthz"))?.status === 200, "it lives");
    expect(await health("/readyz")).toEqual({
      status: 503,
      text: expect.stringMatching(
        /^PRE_INITIALIZING\nkeys: the shared store is unreachable; the public listener is closed\n/,
      ),
    });
    expect(ready).toBe(false);
    await redis.startAgain();
    const gateway = await starting;
    expect((await gateway.models(key)).status).toBe(200);
    await becomes(async () => (await health("/readyz"))?.text === "LIVE\n", "it is ready");
    const said = () => gateway.process.log.map(({ msg }) => String(msg));
    await becomes(async () => said().includes("keys loaded"), "it is logged");
    expect(said().filter((line) => line.startsWith("the store of keys is unreachable"))).toHaveLength(1);
    expect(said().indexOf("keys loaded")).toBeGreaterThan(0);
  });

  test("a gateway that waits for the store can be stopped, and exits if its keys are invalid", async () => {
    const { redis, cluster, config, create } = await setUp();
    await create();
    await redis.stop("SIGKILL");
    const port = await freePort();
    const ended = expect(fleet.gateway(cluster, { ...config, admin: { port } })).rejects.toThrow("ended with 0");
    await becomes(async () => {
      const order = await fetch(`http://127.0.0.1:${port}/quitquitquit`, { method: "POST" }).catch(() => undefined);
      return order?.status === 200;
    }, "the order is accepted");
    await ended;
    writeFileSync(config.keys.redis.pepperFile, Buffer.alloc(32, 7));
    const wrong = expect(fleet.gateway(cluster, { ...config, health: { port } })).rejects.toThrow("ended with 2");
    await becomes(
      async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined))?.ok === true,
      "",
    );
    await redis.startAgain();
    await wrong;
  });
});
