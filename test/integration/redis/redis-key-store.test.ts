import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { run } from "../../../gateway/keys/cli/main.ts";
import { RedisKeyStore } from "../../../gateway/keys/redis/redis-key-store.ts";
import { becomes } from "../../support/becomes.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

let redis: RedisProcess;
let folder: string;
let keyPrefix: string;
let prefixes = 0;
const closing: (() => void)[] = [];

/** Runs the command line by a gateway's configuration; `said` is what it printed, errors included. */
async function keys(...args: readonly string[]): Promise<{ code: number; out: string; said: string }> {
  let [out, said] = ["", ""];
  const code = await run(["--config", join(folder, "gateway.yaml"), ...args], {
    stdin: process.stdin,
    out: (text) => {
      out += text;
      said += text;
    },
    err: (text) => {
      said += text;
    },
    env: {},
    nowMs: Date.now,
  });
  return { code, out, said };
}

async function create(name = "one"): Promise<string> {
  const { code, out, said } = await keys("create", "--json", "--name", name, "--models", "all");
  if (code !== 0) throw new Error(said);
  return JSON.parse(out).key;
}

async function open(): Promise<RedisKeyStore> {
  const state = await connectTo(redis, { keyPrefix });
  const store = await RedisKeyStore.open({ state, pepperFile: join(folder, "pepper"), clock: systemClock });
  closing.push(() => {
    void store.close();
    state.close();
  });
  return store;
}

function idOf(key: string): string {
  return key.split("_")[2] ?? "";
}

describe.skipIf(!HAS_REDIS)(`keys in Redis${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "svc-keys-"));
    prefixes += 1;
    keyPrefix = `test${prefixes}:`;
    const config = {
      listen: { port: 0 },
      keys: { redis: { pepperFile: join(folder, "pepper") } },
      state: { redis: { addresses: [redis.address], keyPrefix } },
    };
    writeFileSync(join(folder, "gateway.yaml"), JSON.stringify(config));
  });

  afterEach(() => {
    for (const close of closing.splice(0)) close();
    rmSync(folder, { recursive: true, force: true });
  });

  afterAll(() => redis?.end());

  test("the command line makes and changes keys, which gateways know at once", async () => {
    const first = await create();
    const store = await open();
    expect(store.find(first)?.keyId).toBe(idOf(first));
    expect(store.find(first.replace(/.$/, (last) => (last === "x" ? "y" : "x")))).toBeUndefined();
    const second = await create("two");
    await becomes(async () => store.find(second) !== undefined, "the new key is known");
    expect((await keys("set-limits", idOf(first), "--rpm", "7")).code).toBe(0);
    await becomes(async () => store.find(first)?.limits.rpm === 7, "the limit is known");
    expect((await keys("revoke", "--kill", idOf(second))).code).toBe(0);
    await becomes(async () => store.find(second) === undefined, "the revocation is known");
    expect(store.mustEnd(idOf(second))).toBe(true);
    expect(store.status()).toMatchObject({ keys: 2, counts: { active: 1, revoked: 1 }, revision: 4, fault: undefined });
    const { out } = await keys("list", "--json");
    expect(JSON.parse(out).map(({ name }: { name: string }) => name)).toEqual(["one", "two"]);
  });

  test("of a change only what has changed is read, and a message that was lost is made up for", async () => {
    const first = await create();
    await create("two");
    const store = await open();
    await redis.ask("CONFIG", "RESETSTAT");
    // Nobody is told.
    await redis.ask("CLIENT", "KILL", "TYPE", "pubsub");
    await keys("disable", idOf(first));
    await becomes(async () => store.find(first) === undefined, "the change is known");
    await keys("enable", idOf(first));
    await becomes(async () => store.find(first) !== undefined, "the change is known");
    const scans = await calls("hscan");
    // The command line reads all keys before each change; the gateway has read none but the changed.
    expect(scans).toBe(2);
    expect(await calls("hgetall")).toBe(0);
  });

  test("while the store is away the keys stay in force, and it says so", async () => {
    const key = await create();
    const store = await open();
    const faults: unknown[] = [];
    store.onChange(({ fault }) => faults.push(fault));
    redis.signal("SIGSTOP");
    await becomes(async () => store.status().fault === "unreachable", "it is known to be away");
    expect(store.find(key)).toBeDefined();
    redis.signal("SIGCONT");
    await becomes(async () => store.status().fault === undefined, "it is back");
    expect(faults).toEqual(["unreachable", undefined]);
  });

  test("the audit log is one chain, whoever changes keys at the same time", async () => {
    await create();
    const made = await Promise.all(Array.from({ length: 4 }, (_, at) => create(`key ${at}`)));
    expect(new Set(made).size).toBe(4);
    expect(await keys("audit", "verify")).toMatchObject({ code: 0 });
    expect((await keys("doctor")).code).toBe(0);
    expect(JSON.parse((await keys("audit", "--json")).out)).toHaveLength(5);
    await redis.ask("LSET", `${keyPrefix}{keys}:audit`, "2", "{}");
    const verified = await keys("audit", "verify");
    expect(verified.code).toBe(4);
    expect(verified.said).toContain("from line 3 on");
    await redis.ask("LTRIM", `${keyPrefix}{keys}:audit`, "0", "1");
    expect((await keys("audit", "verify")).said).toContain("lines are missing");
  });

  test("keys of a file are taken over with their pepper", async () => {
    const file = join(folder, "keys.json");
    const key = await createKey(file, "--name", "old", "--models", "all");
    expect(await keys("import", file)).toMatchObject({ code: 0, out: "1 keys added, 0 were here already\n" });
    expect((await keys("import", file)).out).toBe("0 keys added, 1 were here already\n");
    const store = await open();
    expect(store.find(key)?.keyId).toBe(idOf(key));
  });

  test("fields of a newer release are kept by changes, and open nothing else", async () => {
    const file = join(folder, "keys.json");
    const key = await createKey(file, "--name", "later", "--models", "all");
    const { keys: records, ...set } = JSON.parse(readFileSync(file, "utf8"));
    const later = { laterField: { nested: [1, "a", null] } };
    writeFileSync(file, JSON.stringify({ ...set, keys: [{ ...records[0], ...later }] }));
    expect((await keys("import", file)).code).toBe(0);
    const store = await open();
    expect(store.find(key)?.keyId).toBe(idOf(key));
    expect((await keys("set-limits", idOf(key), "--rpm", "7")).code).toBe(0);
    await becomes(async () => store.find(key)?.limits.rpm === 7, "the limit is known");
    expect(JSON.parse((await keys("export")).out).keys).toMatchObject([{ ...later, limits: { rpm: 7 } }]);
  });

  test("what cannot be used is named", async () => {
    await expect(open()).rejects.toThrow("pepper is missing");
    expect(await keys("list")).toMatchObject({ code: 4, said: "error: there are no keys in the store\n" });
    await create();
    writeFileSync(join(folder, "pepper"), Buffer.alloc(32, 7), { mode: 0o600 });
    await expect(open()).rejects.toThrow("is not the pepper that the stored keys were made with");
    expect((await keys("list")).said).toContain("is not the pepper");
    expect((await keys("restore", join(folder, "keys.json"))).code).toBe(2);
  });

  test("a store that was put back to an older state takes no revocation back", async () => {
    const key = await create();
    const store = await open();
    await keys("revoke", idOf(key));
    await becomes(async () => store.find(key) === undefined, "the revocation is known");
    await redis.ask("HSET", `${keyPrefix}{keys}:head`, "revision", "1");
    await becomes(async () => store.status().fault === "revision_went_back", "it is noticed");
    expect(store.find(key)).toBeUndefined();
  });
});

/** How often the store was sent a command. */
async function calls(name: string): Promise<number> {
  const stats = String(await redis.ask("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
