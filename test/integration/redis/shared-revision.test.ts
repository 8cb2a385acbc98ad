import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { FileKeyStore } from "../../../gateway/keys/file-key-store.ts";
import { SharedRevision } from "../../../gateway/keys/redis/shared-revision.ts";
import { becomes } from "../../support/becomes.ts";
import { createKey, keyCommand } from "../../support/processes/key-command.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/* Key files that are mounted where nothing can be written beside them, as from a Secret. */

let redis: RedisProcess;
let folder: string;

/** A copy of the key file and the pepper, as a new volume for each pod. */
function mounted(name: string): string {
  const to = join(folder, name);
  mkdirSync(to, { mode: 0o700, recursive: true });
  for (const file of ["keys.json", "pepper"]) cpSync(join(folder, "made", file), join(to, file));
  return join(to, "keys.json");
}

async function open(file: string): Promise<FileKeyStore> {
  const state = await connectTo(redis, {});
  onTestFinished(() => state.close());
  const store = await FileKeyStore.open(file, systemClock, new SharedRevision(state));
  onTestFinished(() => store.close());
  return store;
}

describe.skipIf(!HAS_REDIS)(`the revision of a key file in Redis${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "svc-shared-revision-"));
  });
  afterEach(async () => {
    await redis.ask("FLUSHALL");
    rmSync(folder, { recursive: true, force: true });
  });
  afterAll(() => redis?.end());

  /** A key that is revoked in the newest file but not in the older one; both were mounted. */
  async function revoked() {
    const made = join(folder, "made", "keys.json");
    const key = await createKey(made);
    const older = mounted("older");
    await keyCommand(made, "revoke", key.split("_")[2] ?? "");
    return { key, older, newer: mounted("newer") };
  }

  const noted = async (revision: string) => {
    const [name = ""] = (await redis.ask("KEYS", "*newest*")) as string[];
    return name !== "" && String(await redis.ask("GET", name)).endsWith(` ${revision}`);
  };

  test("a file from before a revocation is refused at the start of every gateway", async () => {
    const { key, older, newer } = await revoked();
    expect((await open(newer)).find(key)).toBeUndefined();
    await becomes(() => noted("2"), "the newest revision is known");
    await expect(open(older)).rejects.toThrow(/has revision 1, and revision 2 was in use.*'keys restore --above 2'/);
    expect(await keyCommand(older, "restore", "--above", "2")).toContain("as revision 3\n");
    expect((await open(older)).find(key)).toBeDefined();
  });

  test("an older file that was taken while the store was away counts as stale once it is back", async () => {
    const { key, older, newer } = await revoked();
    await open(newer);
    await becomes(() => noted("2"), "the newest revision is known");
    let waiting = () => {};
    const clock = {
      ...systemClock,
      after(ms: number, run: () => void) {
        if (ms !== 10_000) return systemClock.after(ms, run);
        waiting = run;
        return () => {};
      },
    };
    const state = await connectTo(redis, {});
    onTestFinished(() => state.close());
    redis.signal("SIGSTOP");
    const store = await FileKeyStore.open(older, clock, new SharedRevision(state));
    onTestFinished(() => store.close());
    expect(store.find(key)).toBeDefined();
    redis.signal("SIGCONT");
    await becomes(async () => {
      waiting();
      return store.status().fault === "revision_went_back";
    }, "it is noticed");
  });

  test("a record of another pepper, or none that was signed, does not count", async () => {
    const { key, older } = await revoked();
    const store = await open(older);
    await becomes(() => noted("1"), "the revision is known");
    const [name = ""] = (await redis.ask("KEYS", "*newest*")) as string[];
    await redis.ask("SET", name, `${"0".repeat(64)} 9`);
    expect((await open(older)).find(key)).toBeDefined();
    expect(store.status().fault).toBeUndefined();
  });
});
