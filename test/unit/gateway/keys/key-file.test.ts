import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { auditFileOf } from "../../../../gateway/keys/audit-log.ts";
import { FileKeyVault } from "../../../../gateway/keys/file-key-vault.ts";
import { createKey } from "../../../../gateway/keys/key-admin.ts";
import { KeySetReader, keySetText, parseKeySet, pepperFileOf, readKeyFile } from "../../../../gateway/keys/key-file.ts";
import { generateKeyId } from "../../../../gateway/keys/key-format.ts";
import type { KeySet } from "../../../../gateway/keys/key-record.ts";

const patient = new AbortController().signal;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-key-file-"));
  path = join(folder, "state", "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const addKey = () =>
  new FileKeyVault(path, patient).update(true, [], (set, pepper) => createKey(set, { name: "ci" }, pepper, 0));

const overwrite = (text: string) => writeFile(path, text, { mode: 0o600 });

describe("a change of a key file", () => {
  test("a change of a key file makes folder, key file and pepper, each for the owner only", async () => {
    const { record } = await addKey();
    expect((await readdir(join(folder, "state"))).sort()).toEqual(["keys.json", "keys.json.audit.jsonl", "pepper"]);
    for (const file of [path, auditFileOf(path), pepperFileOf(path)])
      expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, "state"))).mode & 0o777).toBe(0o700);
    expect((await readKeyFile(path))?.set).toMatchObject({ revision: 1, keys: [{ id: record.id }] });
  });

  test("a change of a key file keeps concurrent changes, and the pepper", async () => {
    await addKey();
    const pepper = await readFile(pepperFileOf(path));
    await Promise.all(Array.from({ length: 6 }, addKey));
    expect((await readKeyFile(path))?.set).toMatchObject({ revision: 7, keys: { length: 7 } });
    expect(await readFile(pepperFileOf(path))).toEqual(pepper);
  });

  test("a change of a key file writes nothing where nothing changed", async () => {
    const { record } = await addKey();
    const before = await stat(path);
    await new FileKeyVault(path, patient).update(false, [], (set) => ({ set, value: record }));
    expect((await stat(path)).ino).toBe(before.ino);
  });

  test("a change of a key file never makes a second pepper for keys that have one already", async () => {
    await addKey();
    await rm(pepperFileOf(path));
    await expect(addKey()).rejects.toMatchObject({ fault: "pepper_missing" });
    expect(await readdir(join(folder, "state"))).not.toContain("pepper");
  });
});

describe("readKeyFile", () => {
  test.each([
    ["text that is cut", (text: string) => text.slice(0, 60), "not_json"],
    ["no text", () => "", "not_json"],
    ["a list", () => "[]", "not_valid"],
    ["an unknown field", (text: string) => text.replace('"name"', '"nmae"'), "not_valid"],
    ["a limit that is no number", (text: string) => text.replace('"limits":{}', '"limits":{"rpm":"6"}'), "not_valid"],
    ["a star among models", (text: string) => text.replace('"*"', '"*", "svc-qwen"'), "not_valid"],
    ["another version", (text: string) => text.replace('"v":1', '"v":2'), "not_valid"],
  ])("readKeyFile refuses %s", async (_, change, fault) => {
    await addKey();
    await overwrite(change(await readFile(path, "utf8")));
    await expect(readKeyFile(path)).rejects.toMatchObject({ fault });
  });

  test("readKeyFile names the bad field and repeats nothing of the file", async () => {
    await addKey();
    const text = await readFile(path, "utf8");
    await overwrite(text.replace('"status":"active"', '"status":"SECRET-CANARY"'));
    await expect(readKeyFile(path)).rejects.toThrow(/keys\.json is not a valid key file, at keys\.0\.status$/);
    await overwrite(`SECRET-CANARY ${text}`);
    await expect(readKeyFile(path)).rejects.not.toThrow(/CANARY/);
  });
});

test.each([
  ["another pepper", randomBytes(32), "pepper_mismatch"],
  ["a pepper that was cut", randomBytes(16), "pepper_not_valid"],
])("%s is refused", async (_, pepper, fault) => {
  await addKey();
  await writeFile(pepperFileOf(path), pepper);
  await expect(readKeyFile(path)).rejects.toMatchObject({ fault });
});

describe("KeySetReader", () => {
  /** A set of many keys with different names. */
  async function many(count: number): Promise<KeySet> {
    await addKey();
    const set = (await readKeyFile(path))?.set;
    const [record] = set?.keys ?? [];
    if (!set || !record) throw new Error("a key was made");
    const keys = Array.from({ length: count }, (_, at) => ({
      ...record,
      id: generateKeyId(),
      name: `"}],\\${at}{[`,
    }));
    return { ...set, keys };
  }

  const bytesOf = (set: KeySet) => Buffer.from(keySetText(set));
  const outcome = async (read: () => unknown) => {
    try {
      return await read();
    } catch (error) {
      return String(error);
    }
  };

  test("KeySetReader equals a synchronous read of JSON in any form, or refuses the file for the same reason", async () => {
    const set = await many(3);
    const [first, second, third] = set.keys;
    if (!first || !second || !third) throw new Error("there are keys");
    const text = keySetText(set);
    const texts = [
      ...[text, keySetText({ ...set, keys: [] }), keySetText({ ...set, keys: [first] })],
      ...[JSON.stringify(set), `${JSON.stringify(set, null, 2)}\n`, text.replaceAll(",\n", "\n,")],
      ...[keySetText({ ...set, keys: [{ ...first, name: "" }, second] }), text.replace(/}$/m, "}  ")],
      ...[
        keySetText({ ...set, keys: [first, second, first] }),
        keySetText({ ...set, keys: [first, { ...second, id: first.id }] }),
      ],
      ...[text.replace(",\n", "\n"), text.replace(/}\n]/, "},\n]"), text.slice(0, -1), text.slice(0, -3), `${text} `],
      ...["", "{}", "[]", "nonsense", '"keys":[\n]}\n', text.replace("[\n", "[\n\n"), text.replace("{", '{"keys":7,')],
      ...[text.replace('"v":1', '"v":2'), text.replace("{", '{"more":{"keys":[\n]},')],
    ];
    for (const one of texts) {
      const bytes = Buffer.from(one);
      const expected = await outcome(() => parseKeySet("k", bytes));
      expect([one, await outcome(() => new KeySetReader().read("k", bytes))]).toEqual([one, expected]);
    }
  });

  test("KeySetReader lets other work run between many keys, and looks into changed records only", async () => {
    const set = await many(4_000);
    const reader = new KeySetReader();
    let others = 0;
    const other = setInterval(() => (others += 1), 0);
    const before = await reader.read("k", bytesOf(set));
    clearInterval(other);
    expect(before).toEqual(set);
    expect(others).toBeGreaterThan(0);
    const [first, ...rest] = set.keys;
    if (!first) throw new Error("there are keys");
    const changed = bytesOf({ ...set, revision: 2, keys: [...rest, { ...first, name: "b" }] });
    const after = await reader.read("k", changed);
    expect(after.keys[0]).toBe(before.keys[1]);
    expect(after.keys.at(-1)?.name).toBe("b");
  });
});
