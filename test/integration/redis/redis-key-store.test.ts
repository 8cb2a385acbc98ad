import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import type { AuditEntry } from "../../../gateway/keys/audit-log.ts";
import { createKey as createKeyRecord } from "../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../gateway/keys/key-digest.ts";
import { keySetText } from "../../../gateway/keys/key-file.ts";
import { EMPTY_KEY_SET, type KeySet } from "../../../gateway/keys/key-record.ts";
import { RedisKeyStore } from "../../../gateway/keys/redis/redis-key-store.ts";
import { becomes } from "../../support/becomes.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { sharedKeys } from "../../support/redis/shared-keys.ts";

let redis: RedisProcess;
let folder: string;
let keys: ReturnType<typeof sharedKeys>["keys"];
let create: ReturnType<typeof sharedKeys>["create"];
let remove: () => void;
let keyPrefix: string;
let prefixes = 0;
const closing: (() => Promise<void>)[] = [];

/** Milliseconds that the clock of gateways is ahead. */
let aheadMs = 0;
const ahead: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };

async function open(
  clock = ahead,
  { pepperFile = join(folder, "pepper"), isDeaf = false } = {},
): Promise<RedisKeyStore> {
  const state = await connectTo(redis, { keyPrefix });
  if (isDeaf) state.subscribe = () => {};
  const store = await RedisKeyStore.open({ state, pepperFile, clock });
  closing.push(async () => {
    await store.close();
    state.close();
  });
  return store;
}

/** Keys of the store's pepper that are not in the store. */
function manyKeys(count: number): KeySet {
  const pepper = makePepper(readFileSync(join(folder, "pepper")));
  const make = () => createKeyRecord(EMPTY_KEY_SET, { name: "n" }, pepper, 0).value.record;
  return { ...EMPTY_KEY_SET, revision: 1, keys: Array.from({ length: count }, make) };
}

/** A gateway that looks at the store on demand only. */
async function openDeaf() {
  let look = () => {};
  const clock: Clock = {
    ...ahead,
    after(ms, run) {
      if (ms !== 500) return systemClock.after(ms, run);
      look = run;
      return () => {};
    },
  };
  const store = await open(clock, { isDeaf: true });
  return { store, look: () => look() };
}

function idOf(key: string): string {
  return key.split("_")[2] ?? "";
}

describe.skipIf(!HAS_REDIS)(`keys in Redis${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });

  beforeEach(() => {
    prefixes += 1;
    aheadMs = 0;
    keyPrefix = `test${prefixes}:`;
    ({ folder, keys, create, remove } = sharedKeys(`redis://${redis.address}`, keyPrefix));
  });

  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    remove();
  });

  afterAll(() => redis?.end());

  test("gateways apply keys that the command line creates and changes at once", async () => {
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
    const owned = ["create", "--json", "--name", "three", "--models", "all", "--owner", "team"] as const;
    const [third, fourth] = [JSON.parse((await keys(...owned)).out).key, JSON.parse((await keys(...owned)).out).key];
    await becomes(async () => store.find(fourth) !== undefined, "the new keys are known");
    expect(store.find(third)?.cacheSalt).toBe(store.find(fourth)?.cacheSalt);
    expect(store.find(third)?.cacheSalt).not.toBe(store.find(first)?.cacheSalt);
    const { out } = await keys("list", "--json");
    expect(JSON.parse(out).map(({ name }: { name: string }) => name)).toEqual(["one", "two", "three", "three"]);
  });

  test("a change reads only the changed records, and a lost message is recovered", async () => {
    const first = await create();
    await create("two");
    const store = await open();
    await redis.ask("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "10000");
    await redis.ask("SLOWLOG", "RESET");
    // Subscriptions are lost.
    await redis.ask("CLIENT", "KILL", "TYPE", "pubsub");
    await keys("disable", idOf(first));
    await becomes(async () => store.find(first) === undefined, "the change is known");
    await keys("enable", idOf(first));
    await becomes(async () => store.find(first) !== undefined, "the change is known");
    const asked = (await redis.ask("SLOWLOG", "GET", "10000")) as [number, number, number, string[]][];
    await redis.ask("CONFIG", "SET", "slowlog-log-slower-than", "-1");
    const reads = asked.flatMap(([, , , [name = "", entry = "", ...ids]]) =>
      name.toLowerCase() !== "hset" && entry.endsWith("{keys}:records") ? `${name.toLowerCase()} ${ids}` : [],
    );
    expect(new Set(reads)).toEqual(new Set([`hmget ${idOf(first).charAt(0)}`, `hmget ${idOf(first)}`]));
  });

  test("a change costs as much among 10,000 keys as among a few", async () => {
    const file = join(folder, "many.json");
    const key = await create();
    const set = manyKeys(10_000);
    writeFileSync(file, keySetText(set), { mode: 0o600 });
    const cost = async (...args: readonly [string, ...string[]]) => {
      await redis.ask("CONFIG", "RESETSTAT");
      expect((await keys(...args)).code).toBe(0);
      const [lines, records, all] = [await calls("lrange"), await calls("hmget"), await calls("hscan")];
      return { lines, records, all };
    };
    const few = await cost("set-limits", idOf(key), "--rpm", "7");
    // One part of the index, and the record.
    expect(few).toEqual({ lines: 0, records: 2, all: 0 });
    expect((await keys("import", file)).code).toBe(0);
    const ids = set.keys.slice(-3).map(({ id }) => id);
    expect(await cost("revoke", ...ids)).toEqual(few);
    expect(await cost("create", "--name", "new", "--models", "all")).toEqual({ ...few, records: 1 });
    expect((await open()).status()).toMatchObject({ keys: 10_002, counts: { revoked: 3 }, fault: undefined });
    expect((await keys("audit", "verify")).out).toContain("10006 lines");
  });

  test("keys are revoked and disabled together or not at all", async () => {
    const ids = [idOf(await create()), idOf(await create("two"))];
    expect(await keys("disable", ...ids, "000000000000")).toMatchObject({
      code: 3,
      said: "error: no key has the id 000000000000\n",
    });
    const disabled = JSON.parse((await keys("disable", "--json", ...ids)).out);
    expect(disabled).toMatchObject(ids.map((id) => ({ id, state: "disabled" })));
    await keys("revoke", "--kill", ...ids);
    const entries = JSON.parse((await keys("audit", "--json")).out);
    expect(entries.map(({ action, revision }: AuditEntry) => `${action} ${revision}`)).toEqual([
      ...["create 1", "create 2", "disable 3", "disable 3", "revoke 4", "revoke 4"],
    ]);
  });

  test("while the store is unreachable the keys stay in force, and the status reports it", async () => {
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

  test("the audit log is one chain under concurrent changes of keys", async () => {
    await create();
    const made = await Promise.all(Array.from({ length: 4 }, (_, at) => create(`key ${at}`)));
    expect(new Set(made).size).toBe(4);
    expect(await keys("audit", "verify")).toMatchObject({ code: 0 });
    expect((await keys("doctor")).code).toBe(0);
    expect(JSON.parse((await keys("audit", "--json")).out)).toHaveLength(5);
    const backup = join(folder, "backup.json");
    await keys("export", "--out", backup);
    await redis.ask("LSET", `${keyPrefix}{keys}:audit`, "2", "{}");
    const verified = await keys("audit", "verify");
    expect(verified.code).toBe(4);
    expect(verified.said).toContain("from line 3 on");
    await redis.ask("LTRIM", `${keyPrefix}{keys}:audit`, "0", "1");
    const cut = await keys("audit", "verify");
    expect(cut.code).toBe(4);
    expect(cut.said).toContain("ends at revision 2, and not as the keys of revision 5 say: lines are missing");
    expect((await keys("restore", backup)).out).toBe("5 keys are in force again, as revision 6\n");
    expect((await keys("audit", "verify")).code).toBe(0);
  });

  test("keys of a file are imported with their pepper; fields of a newer release are kept by changes", async () => {
    const file = join(folder, "keys.json");
    const key = await createKey(file);
    const { keys: records, ...set } = JSON.parse(readFileSync(file, "utf8"));
    const later = { laterField: { nested: [1, "a", null] } };
    writeFileSync(file, JSON.stringify({ ...set, keys: [{ ...records[0], ...later }] }));
    expect(await keys("import", file)).toMatchObject({ code: 0, out: "1 keys added, 0 were here already\n" });
    expect((await keys("import", file)).out).toBe("0 keys added, 1 were here already\n");
    const store = await open();
    expect(store.find(key)?.keyId).toBe(idOf(key));
    expect((await keys("set-limits", idOf(key), "--rpm", "7")).code).toBe(0);
    await becomes(async () => store.find(key)?.limits.rpm === 7, "the limit is known");
    expect(JSON.parse((await keys("export")).out).keys).toMatchObject([{ ...later, limits: { rpm: 7 } }]);
  });

  test("unusable records in Redis are named, with their ids", async () => {
    await expect(open()).rejects.toThrow("pepper is missing");
    expect(await keys("list")).toMatchObject({ code: 4, said: "error: there are no keys in the store\n" });
    await create();
    writeFileSync(join(folder, "pepper"), Buffer.alloc(32, 7), { mode: 0o600 });
    await expect(open()).rejects.toThrow("is not the pepper that the stored keys were made with");
    expect((await keys("list")).said).toContain("is not the pepper");
    expect(await keys("restore", join(folder, "keys.json"))).toMatchObject({ code: 4 });
  });

  describe("a store that has lost changes", () => {
    test("a store that has lost changes gets them back from a running gateway, and later changes count although their revisions were there before", async () => {
      const [one, two] = [await create(), await create("two")];
      await save();
      const lost = await create("lost");
      const store = await open();
      await putBack();
      await keys("revoke", idOf(one));
      await becomes(async () => store.find(one) === undefined, "the revocation is known");
      await becomes(async () => (await keys("doctor")).code === 0, "the doctor is content");
      const later = await open();
      for (const { status, find } of [store, later].map((each) => ({
        status: each.status(),
        find: (key: string) => each.find(key),
      }))) {
        expect([find(two)?.keyId, find(lost)?.keyId]).toEqual([idOf(two), idOf(lost)]);
        expect(status).toMatchObject({ keys: 3, counts: { active: 2, revoked: 1 }, fault: undefined, refused: [] });
      }
      expect([store, later].map((each) => each.status().wentBack)).toEqual([1, 0]);
      const entries: AuditEntry[] = JSON.parse((await keys("audit", "--json")).out);
      expect(entries.filter(({ action }) => action === "put-back")).toHaveLength(1);
      expect((await keys("audit", "verify")).code).toBe(0);
    });

    test("a store that has lost changes does not reopen a key that was seen revoked or disabled, whatever is changed there before it is noticed", async () => {
      const [one, two] = [await create(), await create("two")];
      await save();
      await keys("revoke", idOf(one));
      await keys("disable", idOf(two));
      const { store, look } = await openDeaf();
      await putBack();
      await expect(open()).rejects.toMatchObject({ fault: "revision_went_back" });
      for (const rpm of ["1", "2", "3"]) {
        const { code, said } = await keys("set-limits", idOf(one), "--rpm", rpm);
        expect([code, said]).toEqual([0, expect.stringContaining("has lost changes up to revision 4")]);
      }
      expect(await keys("doctor")).toMatchObject({ code: 4 });
      look();
      await becomes(async () => store.status().wentBack === 1 && (await keys("doctor")).code === 0, "it is mended");
      const later = await open();
      for (const each of [store, later]) {
        expect([each.find(one), each.find(two)]).toEqual([undefined, undefined]);
        expect(each.status()).toMatchObject({ counts: { disabled: 1, revoked: 1 }, fault: undefined });
      }
      await keys("enable", idOf(two));
      await becomes(async () => later.find(two) !== undefined, "what is enabled later counts");
    });

    test("a store that has lost changes gets them back once from gateways that notice at once, and all that one of them alone knows", async () => {
      const key = await create();
      await save();
      await keys("set-limits", idOf(key), "--rpm", "7");
      const [first, second] = [await openDeaf(), await openDeaf()];
      await keys("revoke", idOf(key));
      const third = await openDeaf();
      await putBack();
      first.look();
      second.look();
      await becomes(
        async () => [first, second].every(({ store }) => store.status().revision === 3),
        "they have put back what they know",
      );
      const lines = async () => JSON.parse((await keys("audit", "--json")).out) as AuditEntry[];
      const names = (entries: readonly AuditEntry[]) => entries.map(({ action }) => action).join();
      expect(names(await lines())).toBe("create,put-back,set-limits");
      // Another host has seen the revocation.
      await expect(open()).rejects.toMatchObject({ fault: "revision_went_back" });
      third.look();
      await becomes(async () => (await keys("doctor")).code === 0, "the doctor is content");
      first.look();
      await becomes(async () => first.store.find(key) === undefined, "the revocation is known");
      expect((await open()).status().counts).toMatchObject({ active: 0, revoked: 1 });
      expect(names(await lines())).toBe("create,put-back,set-limits,put-back,revoke");
      expect((await keys("audit", "verify")).code).toBe(0);
    });

    test("a store that has lost changes is not called well by a gateway that knows nothing of the loss", async () => {
      const key = await create();
      await save();
      await keys("revoke", idOf(key));
      await putBack();
      // A new host: the loss is known only where the revocation was made.
      mkdirSync(join(folder, "host"), { mode: 0o700 });
      copyFileSync(join(folder, "pepper"), join(folder, "host", "pepper"));
      const store = await open(ahead, { pepperFile: join(folder, "host", "pepper") });
      expect(store.find(key)).toBeDefined();
      for (const rpm of ["1", "2", "3"]) {
        const { code, said } = await keys("set-limits", idOf(key), "--rpm", rpm);
        expect([code, said]).toEqual([0, expect.stringContaining("has lost changes up to revision 2")]);
        await becomes(async () => store.find(key)?.limits.rpm === Number(rpm), "the change is known");
      }
      expect(await keys("doctor")).toMatchObject({ code: 4 });
      await expect(open()).rejects.toMatchObject({ fault: "revision_went_back" });
      await keys("restore");
      await becomes(async () => (await keys("doctor")).code === 0, "the loss is accepted");
      expect((await open()).find(key)).toBeDefined();
    });

    test("a store that has lost changes does not reopen a rotated secret, and opens the new one", async () => {
      const key = await create();
      await save();
      const next = JSON.parse((await keys("rotate", "--json", "--overlap", "0", idOf(key))).out).key;
      const store = await open();
      await putBack();
      await becomes(async () => store.status().wentBack === 1, "it is noticed");
      await becomes(async () => (await keys("doctor")).code === 0, "it is mended");
      for (const each of [store, await open()])
        expect([each.find(key), each.find(next)?.keyId]).toEqual([undefined, idOf(key)]);
    });
  });

  describe("a record that was written by hand", () => {
    /** Writes a record as a program without the pepper can, and waits until gateways read all records again. */
    async function forge(id: string, text: string): Promise<void> {
      await redis.ask("HSET", `${keyPrefix}{keys}:records`, id, text);
      aheadMs += 600_000;
    }

    const textOf = async (id: string) => String(await redis.ask("HGET", `${keyPrefix}{keys}:records`, id));

    test.each([
      ["with other rights", (text: string) => text.replace('"revoked"', '"active"')],
      ["that is no record", () => "{"],
    ])("%s is refused and named, and stops no other change", async (_, altered) => {
      const [one, two] = [await create(), await create("two")];
      await keys("revoke", idOf(one));
      const store = await open();
      await forge(idOf(one), altered(await textOf(idOf(one))));
      await becomes(async () => store.status().fault === "records_refused", "it is noticed");
      expect(store.status().refused).toEqual([idOf(one)]);
      expect(store.find(one)).toBeUndefined();
      expect(await keys("enable", idOf(one))).toMatchObject({
        code: 4,
        said: expect.stringContaining(`not as they were written (${idOf(one)})`),
      });
      expect((await keys("disable", idOf(two))).code).toBe(0);
      await becomes(async () => store.find(two) === undefined, "the change of another key is known");
      expect(store.status()).toMatchObject({ fault: "records_refused", counts: { revoked: 1, disabled: 1 } });
      expect((await keys("doctor")).said).toMatch(new RegExp(`error +1 records .*${idOf(one)}`));
      const later = await open();
      expect(later.find(one)).toBeUndefined();
      expect(later.status()).toMatchObject({ keys: 1, refused: [idOf(one)] });
      expect((await keys("restore")).code).toBe(0);
      await becomes(async () => store.status().fault === undefined, "it is dropped");
      expect(store.status().keys).toBe(1);
    });

    test("a record is refused as it was signed before a revocation, also by a gateway that has not seen that", async () => {
      const key = await create();
      const older = await textOf(idOf(key));
      await keys("revoke", idOf(key));
      const store = await open();
      await forge(idOf(key), older);
      await becomes(async () => store.status().fault === "records_refused", "it is noticed");
      expect(store.find(key)).toBeUndefined();
      // It is not written again by a change.
      expect(await keys("set-models", idOf(key), "all")).toMatchObject({ code: 4 });
      rmSync(join(folder, "pepper.newest"));
      const later = await open();
      expect(later.status()).toMatchObject({ keys: 0, fault: "records_refused" });
      expect(later.find(key)).toBeUndefined();
      await redis.ask("HDEL", `${keyPrefix}{keys}:records`, idOf(key));
      expect((await open()).status()).toMatchObject({ keys: 0, refused: [idOf(key)] });
    });

    test("a record that was written by hand in the place of a newer one is named by running gateways within ten minutes, although nothing was announced", async () => {
      const [one, two] = [await create(), await create("two")];
      const older = await textOf(idOf(one));
      await keys("revoke", idOf(one));
      const store = await open();
      const reports: unknown[] = [];
      store.onChange(({ refused }) => reports.push(refused));
      const newer = await textOf(idOf(one));
      await redis.ask("HSET", `${keyPrefix}{keys}:records`, idOf(one), older);
      // Other changes do not put it off.
      aheadMs += 400_000;
      await keys("set-limits", idOf(two), "--rpm", "7");
      await becomes(async () => store.find(two)?.limits.rpm === 7, "the limit is known");
      expect(store.status().refused).toEqual([]);
      aheadMs += 200_000;
      await becomes(async () => store.status().refused.join() === idOf(one), "it is named");
      expect([store.find(one), store.find(two)?.keyId]).toEqual([undefined, idOf(two)]);
      await redis.ask("HSET", `${keyPrefix}{keys}:records`, idOf(one), newer);
      aheadMs += 60_000;
      await becomes(async () => store.status().fault === undefined, "it is well again");
      expect(store.status()).toMatchObject({ refused: [], counts: { active: 1, revoked: 1 } });
      const before = await calls("hmget");
      aheadMs += 600_000;
      await becomes(async () => (await calls("hmget")) > before, "all is read again");
      expect(reports).toEqual([[], [idOf(one)], []]);
    });
  });

  describe("head and index", () => {
    const head = () => `${keyPrefix}{keys}:head`;
    const records = () => `${keyPrefix}{keys}:records`;
    const part = (id: string) => id.slice(0, 1);

    test.each([
      ["an index without the key", (id: string) => redis.ask("HDEL", records(), part(id))],
      ["a made-up index", (id: string) => redis.ask("HSET", records(), part(id), `${id} ${"A".repeat(43)}`)],
      ["an older index and record", () => redis.ask("COPY", "saved:records", records(), "REPLACE")],
      [
        "an altered head",
        async () => redis.ask("SET", head(), String(await redis.ask("GET", head())).replace(":2", ":9")),
      ],
      ["a head of another form", () => redis.ask("SET", head(), "{}")],
    ])("%s is refused: the keys in force stay, and an export puts it right", async (_, spoil) => {
      const key = await create();
      await save();
      await keys("revoke", idOf(key));
      const dump = join(folder, "dump.json");
      await keys("export", "--out", dump);
      const store = await open();
      await spoil(idOf(key));
      const refused = { fault: "not_signed" };
      await expect(open()).rejects.toMatchObject(refused);
      expect(await keys("enable", idOf(key))).toMatchObject({
        code: 4,
        said: expect.stringContaining("not as it was written"),
      });
      aheadMs += 600_000;
      expect(store.find(key)).toBeUndefined();
      expect((await keys("restore", dump)).out).toBe("1 keys are in force again, as revision 3\n");
      await becomes(async () => store.status().revision === 3, "what was restored is followed");
      expect(store.status()).toMatchObject({ counts: { revoked: 1 }, fault: undefined });
      expect((await open()).find(key)).toBeUndefined();
      expect((await keys("audit", "verify")).code).toBe(0);
    });

    test("keys of an earlier release are left alone, and what to do is said", async () => {
      await redis.ask("HSET", head(), "revision", "3");
      for (const command of ["list", "create"])
        expect(await keys(command, ...(command === "create" ? ["--name", "n", "--models", "all"] : []))).toMatchObject({
          code: 4,
          said: expect.stringMatching(
            /^error: the keys in the store are of an earlier release: export them .*restore EXPORT/,
          ),
        });
    });
  });

  describe("another store in the place of the one in use", () => {
    const empty = () => redis.ask("DEL", "none", ...SAVED.map((name) => `${keyPrefix}{keys}:${name}`));

    test("another store in the place of the one in use takes no key away: an emptied one gets all keys back, and one with other keys those that it lacks", async () => {
      const key = await create();
      const store = await open();
      await empty();
      await becomes(async () => store.status().wentBack === 1, "it is noticed");
      await becomes(async () => (await keys("list")).out.includes(idOf(key)), "the key is there again");
      expect([store.find(key)?.keyId, store.status().fault]).toEqual([idOf(key), undefined]);
      // Another host makes keys in an emptied store before a gateway looks.
      const { store: deaf, look } = await openDeaf();
      await store.close();
      await empty();
      let other = "";
      const createsKey = async () => {
        // The closed gateway may still write it once.
        rmSync(join(folder, "pepper.newest"), { force: true });
        other = await create("other").catch(() => "");
        return other !== "";
      };
      await becomes(createsKey, "another host makes a key");
      look();
      await becomes(async () => deaf.find(other) !== undefined, "what is new there is followed");
      for (const each of [deaf, await open()]) {
        expect(each.status()).toMatchObject({ keys: 2, fault: undefined });
        expect(each.find(key)?.keyId).toBe(idOf(key));
      }
      expect((await keys("audit", "verify")).code).toBe(0);
    });

    test("another store in the place of the one in use gets more keys back than one step writes, from gateways that notice at once", async () => {
      await create();
      const file = join(folder, "many.json");
      const set = manyKeys(1_200);
      writeFileSync(file, keySetText(set), { mode: 0o600 });
      expect((await keys("import", file)).code).toBe(0);
      const gateways = [await openDeaf(), await openDeaf()];
      await empty();
      for (const { look } of gateways) look();
      const isWell = async () => {
        for (const { look } of gateways) look();
        return gateways.every(({ store }) => store.status().fault === undefined) && (await keys("doctor")).code === 0;
      };
      await becomes(isWell, "the keys are there again");
      expect((await open()).status()).toMatchObject({ keys: 1_201, counts: { active: 1_201 }, fault: undefined });
      expect(gateways.map(({ store }) => store.status().keys)).toEqual([1_201, 1_201]);
    });

    test("another store in the place of the one in use gets no keys while no gateway runs that knows the lost ones, until they are restored", async () => {
      const key = await create();
      const dump = join(folder, "dump.json");
      await keys("export", "--out", dump);
      await empty();
      expect(await keys("create", "--name", "new", "--models", "all")).toMatchObject({
        code: 4,
        said: expect.stringContaining("'keys restore EXPORT' the keys of a file"),
      });
      await expect(open()).rejects.toMatchObject({ fault: "revision_went_back" });
      expect((await keys("restore", dump)).code).toBe(0);
      expect((await open()).find(key)).toBeDefined();
      expect((await keys("audit", "verify")).code).toBe(0);
    });

    test("another store of before a restore opens neither a revoked key nor one that the restore dropped", async () => {
      const key = await create();
      const dump = join(folder, "dump.json");
      const dropped = await create("dropped");
      expect((await keys("restore")).code).toBe(0);
      await save();
      await keys("revoke", idOf(key));
      await keys("export", "--out", dump);
      const { keys: records, ...set } = JSON.parse(readFileSync(dump, "utf8"));
      writeFileSync(dump, JSON.stringify({ ...set, keys: records.slice(0, 1) }));
      expect((await keys("restore", dump)).code).toBe(0);
      const store = await open();
      expect(store.status()).toMatchObject({ keys: 1, counts: { revoked: 1 } });
      await putBack();
      await becomes(async () => store.status().wentBack === 1, "it is noticed");
      await becomes(async () => (await keys("doctor")).code === 0, "it is mended");
      for (const each of [store, await open()]) {
        expect([each.find(key), each.find(dropped)]).toEqual([undefined, undefined]);
        expect(each.status()).toMatchObject({ keys: 1, counts: { revoked: 1 }, fault: undefined });
      }
    });

    test("another store of before a restore is followed no less when an operator restores it on purpose", async () => {
      const key = await create();
      const dump = join(folder, "dump.json");
      await keys("export", "--out", dump);
      await keys("revoke", idOf(key));
      const store = await open();
      expect(store.find(key)).toBeUndefined();
      expect((await keys("restore", dump)).code).toBe(0);
      await becomes(async () => store.find(key) !== undefined, "it is followed");
      expect(store.status()).toMatchObject({ wentBack: 0, fault: undefined });
    });
  });

  test("a change waits for a replica if there is one, and reports a missing confirmation", async () => {
    await redis.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0");
    const replica = await RedisProcess.start("--replicaof", "127.0.0.1", String(redis.port));
    try {
      const isUp = async () => String(await redis.ask("INFO", "replication")).includes("state=online");
      await becomes(isUp, "the replica follows");
      const warning = "no replica of the store has confirmed the change";
      expect((await keys("create", "--name", "one", "--models", "all")).said).not.toContain(warning);
      replica.signal("SIGSTOP");
      expect(await keys("create", "--name", "two", "--models", "all")).toMatchObject({
        code: 0,
        said: expect.stringContaining(warning),
      });
    } finally {
      await replica.end();
    }
  });
});

const SAVED = ["head", "records", "audit"] as const;

/** Saves the content of the store. */
async function save(): Promise<void> {
  for (const name of SAVED) await redis.ask("COPY", `${keyPrefix}{keys}:${name}`, `saved:${name}`, "REPLACE");
}

/** Restores the saved content, as after a fail-over to a lagging replica, or a restored backup. */
async function putBack(): Promise<void> {
  for (const name of SAVED) await redis.ask("COPY", `saved:${name}`, `${keyPrefix}{keys}:${name}`, "REPLACE");
}

/** Resolves to how often the store received a command. */
async function calls(name: string): Promise<number> {
  const stats = String(await redis.ask("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
