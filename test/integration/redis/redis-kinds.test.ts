import { writeFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import type { ChargeItem } from "../../../gateway/limits/limit-store.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { type OpenLimits, openLimits } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { shippedUsers } from "../../support/redis/shipped-store.ts";

/* A store for each kind of connection in `state.redis.url`. */

const closing: (() => unknown)[] = [];

async function started(...args: readonly string[]): Promise<RedisProcess> {
  const redis = await RedisProcess.start(...args);
  closing.push(() => redis.end());
  return redis;
}

async function opened(redis: RedisProcess, settings: Parameters<typeof openLimits>[1]): Promise<OpenLimits> {
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
    `${HAS_OPENSSL ? "" : `(${NO_OPENSSL}) `}over TLS, as an ACL user with a password file or one in the URL`,
    async () => {
      const certificates = new Certificates();
      closing.push(() => certificates.remove());
      certificates.authority("ca");
      certificates.authority("other");
      certificates.signed("peer", "ca");
      const passwordFile = certificates.file("password");
      const [caFile, certFile, keyFile] = ["ca.pem", "peer.pem", "peer.key"].map((name) => certificates.file(name));
      if (!caFile || !certFile || !keyFile) throw new Error("there are three");
      writeFileSync(passwordFile, "a-long-password\n", { mode: 0o600 });
      const users = shippedUsers("a-long-password").trim().split("\n");
      const redis = await started(
        ...["--tls-port", "--tls-cert-file", certFile, "--tls-key-file", keyFile],
        ...["--tls-ca-cert-file", caFile, "--tls-auth-clients", "no"],
        ...users.flatMap((line) => line.split(" ").with(0, "--user")),
      );
      const url = (user: string) => `rediss://${user}@localhost:${redis.port}`;
      await counts(await opened(redis, { url: url("gateway"), caFile, passwordFile }), 1);
      expect((await opened(redis, { url: url("gateway:a-long-password"), caFile })).store.state.shared).toBe(true);
      const stranger = await opened(redis, { url: url("gateway:another"), caFile });
      expect(stranger.said).toEqual(["WRONGPASS"]);
      const distrusting = await opened(redis, { url: url("gateway"), caFile: certificates.file("other.pem") });
      expect(distrusting.store.state.shared).toBe(false);
      const systemAuthorities = await opened(redis, { url: url("gateway"), passwordFile });
      expect(systemAuthorities.store.state.shared).toBe(false);
    },
  );

  test("a Redis that comes up only after the gateway is used", async () => {
    const redis = await started();
    await redis.stop();
    const limits = await opened(redis, {});
    expect(limits.store.state.shared).toBe(false);
    expect(limits.said).toEqual(["ECONNREFUSED"]);
    expect((await limits.store.charge("early", [one()])).ok).toBe(true);
    await redis.startAgain();
    await counts(limits, 1);
    const known = async () => Number(await redis.ask("EXISTS", "svc:limits:{early}")) === 1;
    await becomes(known, "what was used before is in the store");
    expect(limits.said.at(-1)).toBe("back");
  });
});
