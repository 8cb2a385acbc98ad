import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { FileKeyStore } from "../../../../gateway/keys/file-key-store.ts";
import { FileKeyVault } from "../../../../gateway/keys/file-key-vault.ts";
import { createKey, setStatus } from "../../../../gateway/keys/key-admin.ts";
import { type KeySetChange, pepperFileOf } from "../../../../gateway/keys/key-file.ts";
import type { KeySet } from "../../../../gateway/keys/key-record.ts";
import type { KeyStoreStatus } from "../../../../gateway/keys/key-store.ts";
import { eventually } from "../../../support/eventually.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const LOADED = {
  ...{ keys: 1, counts: { active: 1, disabled: 0, revoked: 0 }, revision: 1, loadedAtMs: NOW },
  ...{ refused: [], wentBack: 0 },
};

const patient = new AbortController().signal;

let folder: string;
let file: string;
let clock: VirtualClock;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-file-key-store-"));
  file = join(folder, "keys.json");
  clock = new VirtualClock("2026-03-01T00:00:00.000Z");
});

// A closed store may still be recording the revision that it used.
afterEach(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

async function openStore(): Promise<FileKeyStore> {
  const store = await FileKeyStore.open(file, clock);
  onTestFinished(() => store.close());
  return store;
}

/** The first matching status: the file system may report one change in several steps. */
function nextStatus(store: FileKeyStore, fits: (status: KeyStoreStatus) => boolean): Promise<KeyStoreStatus> {
  return new Promise((resolve) => {
    const off = store.onChange((status) => {
      if (!fits(status)) return;
      off();
      resolve(status);
    });
  });
}

async function addKey() {
  const made = await new FileKeyVault(file, patient).update(true, [], (set, pepper) =>
    createKey(set, { name: "ci" }, pepper, NOW),
  );
  return { id: made.record.id, key: made.key };
}

const change = <T>(by: (set: KeySet) => KeySetChange<T>) => new FileKeyVault(file, patient).update(false, [], by);

/** As an operator's own tool may do it: the new text appears at once. */
async function replaceFile(text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

test("opening loads the keys of the file", async () => {
  const { id, key } = await addKey();
  const store = await openStore();
  expect(store.find(key)).toMatchObject({ keyId: id, models: "all" });
  expect(store.byId(id)).toBe(store.find(key));
  expect(store.byId("unknown")).toBeUndefined();
  expect(store.status()).toEqual({ ...LOADED, loadErrors: 0, fault: undefined });
});

test("opening rejects without the file, and an unusable file with the reason", async () => {
  await expect(FileKeyStore.open(file, clock)).rejects.toMatchObject({ fault: "missing" });
  await addKey();
  await replaceFile("{");
  await expect(FileKeyStore.open(file, clock)).rejects.toThrow(/keys\.json is not valid JSON/);
  // No timer is left.
  clock.jump(1_000_000);
});

describe("a change of the file", () => {
  test("a change of the file revokes, disables and enables a key in a running store", async () => {
    const { id, key } = await addKey();
    const store = await openStore();
    for (const [status, accepted] of [
      ["disabled", false],
      ["active", true],
      ["revoked", false],
    ] as const) {
      const { revision } = store.status();
      const loaded = nextStatus(store, (status) => status.revision > revision);
      await change((set) => setStatus(set, [id], status, NOW));
      await loaded;
      expect(store.find(key) !== undefined).toBe(accepted);
    }
  });
});

describe("a bad file", () => {
  test.each([
    ["cut text", async () => (await readFile(file, "utf8")).slice(0, 100), "not_json"],
    ["the form of another release", async () => JSON.stringify({ v: 2, revision: 9, keys: [] }), "not_valid"],
    ["no keys at all", async () => JSON.stringify({ v: 1, revision: 9, keys: [] }), "empty"],
    [
      "an old copy",
      async () => JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), revision: 0 }),
      "revision_went_back",
    ],
  ])("a bad file with %s keeps the last good keys and is counted", async (_, content, fault) => {
    const { key } = await addKey();
    const good = await readFile(file, "utf8");
    const store = await openStore();

    const stale = nextStatus(store, (status) => status.fault !== undefined);
    await replaceFile(await content());
    expect(await stale).toEqual({ ...LOADED, loadErrors: 1, fault });
    expect(store.find(key)).toBeDefined();

    const mended = nextStatus(store, (status) => status.fault === undefined);
    await replaceFile(good);
    expect(await mended).toEqual({ ...LOADED, loadErrors: 1, fault: undefined });
  });

  test("a bad file that could not be read is tried again although nothing of it changed", async () => {
    const { key } = await addKey();
    const store = await openStore();
    const stale = nextStatus(store, (status) => status.fault === "unreadable");
    await rm(file);
    await mkdir(file, { mode: 0o700 });
    await stale;
    const { loadErrors } = store.status();
    await clock.advance(500);
    await eventually(() => expect(store.status().loadErrors).toBeGreaterThan(loadErrors));
    expect(store.find(key)).toBeDefined();
  });

  test("a bad file turns good when the pepper that belongs to it comes", async () => {
    const { key } = await addKey();
    const pepper = await readFile(pepperFileOf(file));
    const store = await openStore();
    const stale = nextStatus(store, (status) => status.fault === "pepper_missing");
    await rm(pepperFileOf(file));
    await stale;
    expect(store.find(key)).toBeDefined();
    const mended = nextStatus(store, (status) => status.fault === undefined);
    await writeFile(`${file}.pepper`, pepper, { mode: 0o600 });
    await rename(`${file}.pepper`, pepperFileOf(file));
    await mended;
    expect(store.find(key)).toBeDefined();
  });
});

describe("after a restart", () => {
  /**
   * A store that has used revision 2, in which the key of revision 1 is revoked; resolves to the file of revision 1.
   */
  async function usedTwice() {
    const { id, key } = await addKey();
    const old = await readFile(file, "utf8");
    await change((set) => setStatus(set, [id], "revoked", NOW));
    await (await openStore()).close();
    return { old, key };
  }

  test("a file that is older than one in use is refused, and accepted after a restore", async () => {
    const { old, key } = await usedTwice();
    await replaceFile(old);
    await writeFile(`${file}.seen`, "two", { mode: 0o600 });
    await expect(FileKeyStore.open(file, clock)).rejects.toMatchObject({ fault: "not_valid" });
    await writeFile(`${file}.seen`, "2\n", { mode: 0o600 });
    const opening = FileKeyStore.open(file, clock);
    await expect(opening).rejects.toMatchObject({ fault: "revision_went_back" });
    await expect(opening).rejects.toThrow(/has revision 1, and revision 2 was in use.*keys restore/);
    expect(await new FileKeyVault(file, patient).restore(file, 0)).toMatchObject({ revision: 3 });
    expect((await openStore()).find(key)).toBeDefined();
  });

  test("a change does not make an older file the newest, and a new file continues above all used revisions", async () => {
    const { old } = await usedTwice();
    await replaceFile(old);
    await expect(addKey()).rejects.toMatchObject({ fault: "revision_went_back" });
    await rm(file);
    const { key } = await addKey();
    const store = await openStore();
    expect([store.find(key) !== undefined, store.status().revision]).toEqual([true, 3]);
  });

  test("if the revision cannot be recorded after a restart, keys are in force nevertheless", async () => {
    const { key } = await addKey();
    // The name of the record's file fits, but that of its temporary file does not.
    const long = join(folder, `${"k".repeat(240)}.json`);
    await rename(file, long);
    file = long;
    expect((await openStore()).find(key)).toBeDefined();
  });
});

test("a closed store calls no listener, waits for no file and still finds its keys", async () => {
  const { key } = await addKey();
  const store = await openStore();
  const calls: KeyStoreStatus[] = [];
  store.onChange((status) => calls.push(status));
  await store.close();
  // A second store sees the change, so the first would have seen it, too.
  const witness = await openStore();
  const seen = nextStatus(witness, ({ keys }) => keys === 2);
  await addKey();
  await seen;
  expect(calls).toEqual([]);
  expect(store.find(key)).toBeDefined();
});
