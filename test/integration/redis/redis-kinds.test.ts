import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createKey, type KeyRequest } from "../../../gateway/keys/key-admin.ts";
import { openRedisKeyVault } from "../../../gateway/keys/redis/redis-key-vault.ts";
import type { ChargeItem } from "../../../gateway/limits/limit-store.ts";
import { stateSchema } from "../../../gateway/state/state-settings.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { type OpenLimits, openLimits } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { shippedUsers } from "../../support/redis/shipped-store.ts";
import { sizeOf } from "../../support/size.ts";

/* A store for each kind of connection in `state.redis`. */

const closing: (() => unknown)[] = [];

const KEY: KeyRequest = {
  ...{ name: "one", owner: null, env: "live", models: "all", limits: {}, quota: {} },
  ...{ priority: "DEFAULT", weight: 1, expiresAtMs: null },
};

async function started(...args: readonly string[]): Promise<RedisProcess> {
  const redis = await RedisProcess.start(...args);
  closing.push(() => redis.end());
  return redis;
}

async function opened(redis: RedisProcess, settings: object): Promise<OpenLimits> {
  const limits = await openLimits(redis, settings);
  closing.push(() => limits.close());
  return limits;
}

function one(perMinute = 10): ChargeItem {
  return { name: "rpm", rule: { kind: "bucket", perMinute, capacity: perMinute }, cost: 1 };
}

async function counts({ store }: OpenLimits, keys: number): Promise<void> {
  await becomes(async () => store.state.shared, "the store answers");
  for (let key = 0; key < keys; key += 1) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => store.charge(`key${key}`, [one()])));
    expect(answers.filter(({ ok }) => ok)).toHaveLength(10);
  }
  expect(store.state.shared).toBe(true);
}

describe.skipIf(!HAS_REDIS)(`a Redis${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  test.skipIf(!HAS_OPENSSL)(
    `${HAS_OPENSSL ? "" : `(${NO_OPENSSL}) `}over TLS with a client certificate, as an ACL user with a password file`,
    async () => {
      const certificates = new Certificates();
      closing.push(() => certificates.remove());
      certificates.authority("ca");
      certificates.signed("peer", "ca");
      const passwordFile = certificates.file("password");
      const [caFile, certFile, keyFile] = ["ca.pem", "peer.pem", "peer.key"].map((name) => certificates.file(name));
      if (!caFile || !certFile || !keyFile) throw new Error("there are three");
      writeFileSync(passwordFile, "a-long-password\n", { mode: 0o600 });
      const users = shippedUsers("a-long-password").trim().split("\n");
      const redis = await started(
        ...["--tls-port", "--tls-cert-file", certFile, "--tls-key-file", keyFile],
        ...["--tls-ca-cert-file", caFile],
        ...users.flatMap((line) => line.split(" ").with(0, "--user")),
      );
      const tls = { caFile, certFile, keyFile, serverName: "localhost" };
      await counts(await opened(redis, { tls, username: "gateway", passwordFile }), 1);
      const stranger = await opened(redis, { tls, username: "gateway", password: "another" });
      expect(stranger.store.state.shared).toBe(false);
      expect(stranger.said).toEqual(["WRONGPASS"]);
      const noCertificate = await opened(redis, {
        tls: { caFile, serverName: "localhost" },
        username: "gateway",
        passwordFile,
      });
      expect(noCertificate.store.state.shared).toBe(false);
    },
  );

  test("that comes up only after the gateway", async () => {
    const redis = await started();
    await redis.stop();
    const limits = await opened(redis, { connectTimeoutMs: 200 });
    expect(limits.store.state.shared).toBe(false);
    expect(limits.said).toEqual(["ECONNREFUSED"]);
    expect((await limits.store.charge("early", [one()])).ok).toBe(true);
    await redis.startAgain();
    await counts(limits, 1);
    const known = async () => Number(await redis.ask("EXISTS", "svc:limits:{early}")) === 1;
    await becomes(known, "what was used before is told");
    expect(limits.said.at(-1)).toBe("back");
  });

  if (sizeOf({ quick: 0, exhaustive: 1 }) === 1) {
    test("that Sentinels name, also after its master was lost", async () => {
      const master = await started("--appendonly", "yes");
      const replica = await started("--replicaof", "127.0.0.1", String(master.port));
      const linked = async () => String(await replica.ask("INFO", "replication")).includes("master_link_status:up");
      await becomes(linked, "it is a replica");
      const sentinel = await RedisProcess.sentinel(master);
      closing.push(() => sentinel.end());
      const limits = await opened(sentinel, { sentinel: { name: "svc" } });
      await counts(limits, 1);
      const replicas = async () => String(await sentinel.ask("SENTINEL", "replicas", "svc"));
      await becomes(async () => (await replicas()).includes("slave"), "the replica is known");
      await becomes(async () => Number(await replica.ask("EXISTS", "svc:limits:{key0}")) === 1, "it has the counts");
      await master.stop("SIGKILL");
      await limits.store.charge("lost", [one()]);
      await becomes(async () => limits.store.state.shared, "the replica is the master");
      // Earlier counts are there.
      expect((await limits.store.charge("key0", [one(10)])).readings[0]?.remaining).toBeLessThan(9);
    });

    test("that is a Cluster", async () => {
      const nodes = await Promise.all(
        Array.from({ length: 3 }, () => started("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")),
      );
      for (const [at, node] of nodes.entries()) {
        const [from, to] = [Math.floor((16_384 * at) / 3), Math.floor((16_384 * (at + 1)) / 3) - 1];
        await node.ask("CLUSTER", "ADDSLOTSRANGE", String(from), String(to));
        await node.ask("CLUSTER", "MEET", "127.0.0.1", String(nodes[0]?.port));
      }
      for (const node of nodes)
        await becomes(async () => String(await node.ask("CLUSTER", "INFO")).includes("cluster_state:ok"), "it is one");
      const [first] = nodes;
      if (!first) throw new Error("there are three");
      const limits = await opened(first, { cluster: true });
      await counts(limits, 20);
      for (const node of nodes) expect(Number(await node.ask("DBSIZE"))).toBeGreaterThan(0);
      expect(limits.said).toEqual([]);
      const folder = mkdtempSync(join(tmpdir(), "svc-kinds-"));
      closing.push(() => rmSync(folder, { recursive: true, force: true }));
      const warnings: string[] = [];
      const warn = (text: string) => warnings.push(text);
      const { redis: settings } = stateSchema.parse({ redis: { addresses: [first.address], cluster: true } });
      if (!settings) throw new Error("there are settings");
      const vault = await openRedisKeyVault(settings, join(folder, "pepper"), warn);
      closing.push(() => vault.close());
      const made = await vault.update(true, (set, pepper) =>
        createKey(set, KEY, { pepper, nowMs: 0, random: randomBytes }),
      );
      expect(JSON.stringify((await vault.read()).set.keys)).toBe(JSON.stringify([made.record]));
      expect(warnings).toEqual([]);
    });
  }
});
