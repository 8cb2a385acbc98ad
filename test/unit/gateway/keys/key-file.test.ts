import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { auditFileOf } from "../../../../gateway/keys/audit-log.ts";
import { createKey, type KeyRequest, revokeKey } from "../../../../gateway/keys/key-admin.ts";
import {
  KeySetReader,
  parseKeySet,
  pepperFileOf,
  type ReadBytes,
  readKeyFile,
  updateKeyFile,
} from "../../../../gateway/keys/key-file.ts";
import { generateKeyId } from "../../../../gateway/keys/key-format.ts";
import type { KeySet } from "../../../../gateway/keys/key-record.ts";

const request: KeyRequest = {
  name: "ci",
  owner: null,
  env: "live",
  models: "all",
  limits: {},
  quota: {},
  priority: "DEFAULT",
  weight: 1,
  expiresAtMs: null,
};

const patient = new AbortController().signal;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-key-file-"));
  path = join(folder, "state", "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const addKey = () =>
  updateKeyFile(
    path,
    true,
    (set, pepper) => createKey(set, request, { pepper, nowMs: 0, random: randomBytes }),
    patient,
  );

const overwrite = (text: string) => writeFile(path, text, { mode: 0o600 });

describe("updateKeyFile", () => {
  test("makes folder, key file and pepper, each for the owner only", async () => {
    const { record } = await addKey();
    expect((await readdir(join(folder, "state"))).sort()).toEqual(["keys.json", "keys.json.audit.jsonl", "pepper"]);
    for (const file of [path, auditFileOf(path), pepperFileOf(path)])
      expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, "state"))).mode & 0o777).toBe(0o700);
    expect((await readKeyFile(path))?.set).toMatchObject({ revision: 1, keys: [{ id: record.id }] });
  });

  test("keeps concurrent changes, and the pepper", async () => {
    await addKey();
    const pepper = await readFile(pepperFileOf(path));
    await Promise.all(Array.from({ length: 6 }, addKey));
    expect((await readKeyFile(path))?.set).toMatchObject({ revision: 7, keys: { length: 7 } });
    expect(await readFile(pepperFileOf(path))).toEqual(pepper);
  });

  test("removes the temporary files of killed changes, and no others", async () => {
    await addKey();
    const state = join(folder, "state");
    const others = ["keys.json.seen.7.0123456789ab.tmp", "keys.json.7.backup", "other.json.7.0123456789ab.tmp"];
    for (const name of ["keys.json.7.0123456789ab.tmp", "pepper.7.0123456789ab.tmp", ...others])
      await writeFile(join(state, name), "left", { mode: 0o600 });
    await addKey();
    expect((await readdir(state)).sort()).toEqual([...others, "keys.json", "keys.json.audit.jsonl", "pepper"].sort());
  });

  test("writes nothing where nothing changed", async () => {
    const { record } = await addKey();
    const before = await stat(path);
    await updateKeyFile(path, false, (set) => ({ set, value: record }), patient);
    expect((await stat(path)).ino).toBe(before.ino);
  });

  test("makes no file for a change of keys that are not there", async () => {
    const change = updateKeyFile(path, false, (set) => revokeKey(set, "x", 0), patient);
    await expect(change).rejects.toMatchObject({ fault: "missing" });
    expect(await readdir(folder)).toEqual([]);
  });

  test("never makes a second pepper for keys that have one already", async () => {
    await addKey();
    await rm(pepperFileOf(path));
    await expect(addKey()).rejects.toMatchObject({ fault: "pepper_missing" });
    expect(await readdir(join(folder, "state"))).not.toContain("pepper");
  });
});

describe("readKeyFile", () => {
  test("distinguishes a missing file from an unusable one", async () => {
    expect(await readKeyFile(path)).toBeUndefined();
  });

  test.each([
    ["text that is cut", (text: string) => text.slice(0, 60), "not_json"],
    ["no text", () => "", "not_json"],
    ["a list", () => "[]", "not_valid"],
    ["an unknown field", (text: string) => text.replace('"name"', '"nmae"'), "not_valid"],
    [
      "a limit that is no number",
      (text: string) => text.replace('"limits": {}', '"limits": {"rpm": "6"}'),
      "not_valid",
    ],
    ["a star among models", (text: string) => text.replace('"*"', '"*", "svc-qwen"'), "not_valid"],
    ["another version", (text: string) => text.replace('"v": 1', '"v": 2'), "not_valid"],
  ])("refuses %s", async (_, change, fault) => {
    await addKey();
    await overwrite(change(await readFile(path, "utf8")));
    await expect(readKeyFile(path)).rejects.toMatchObject({ fault });
  });

  test("refuses two records of one id", async () => {
    await addKey();
    const set = JSON.parse(await readFile(path, "utf8"));
    await overwrite(JSON.stringify({ ...set, keys: [set.keys[0], set.keys[0]] }));
    await expect(readKeyFile(path)).rejects.toMatchObject({ fault: "not_valid" });
  });

  test("names the bad field and repeats nothing of the file", async () => {
    await addKey();
    const text = await readFile(path, "utf8");
    await overwrite(text.replace('"status": "active"', '"status": "SECRET-CANARY"'));
    await expect(readKeyFile(path)).rejects.toThrow(/keys\.json is not a valid key file, at keys\.0\.status$/);
    await overwrite(`SECRET-CANARY ${text}`);
    await expect(readKeyFile(path)).rejects.not.toThrow(/CANARY/);
  });

  test.each([
    ["another pepper", randomBytes(32), "pepper_mismatch"],
    ["a pepper that was cut", randomBytes(16), "pepper_not_valid"],
  ])("refuses %s", async (_, pepper, fault) => {
    await addKey();
    await writeFile(pepperFileOf(path), pepper);
    await expect(readKeyFile(path)).rejects.toMatchObject({ fault });
  });
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
      id: generateKeyId(randomBytes),
      name: `"}],\\${at}{[`,
    }));
    return { ...set, keys };
  }

  const bytesOf = (set: object, indent?: number) => Buffer.from(JSON.stringify(set, null, indent));
  /** Returns bytes as a file does, `most` at a time. */
  const from =
    (bytes: Buffer, most = Number.POSITIVE_INFINITY): ReadBytes =>
    async (room, position) =>
      bytes.copy(room, 0, position, Math.min(bytes.length, position + most));
  const outcome = async (read: () => unknown) => {
    try {
      return await read();
    } catch (error) {
      return String(error);
    }
  };

  test("equals a synchronous read, or refuses the file for the same reason", async () => {
    const set = await many(3);
    const [first, ...rest] = set.keys;
    const compact = bytesOf(set).toString();
    const texts = [
      ...[compact, bytesOf(set, 2).toString(), bytesOf({ ...set, keys: [] }, 2).toString()],
      ...[bytesOf({ ...set, keys: [{ ...first, name: "" }, ...rest] }), bytesOf({ ...set, keys: [first, first] })],
      ...[bytesOf({ ...set, keys: [...rest, { ...first, more: 1 }] }), bytesOf({ ...set, more: { keys: [] } })],
      ...[compact.replace("},{", "}{"), compact.replace("},{", "},,{"), compact.replace("[{", "[,{")],
      ...[compact.replace("}]}", "},]}"), compact.slice(0, -3), compact.replace("{", "["), "", "{}", "[]", "nonsense"],
      ...[
        compact.replace(/}$/, ',"keys":[]}'),
        compact.replace(/}$/, ',"\\u006beys":[]}'),
        '{"keys":[1]}',
        '{"keys":7}',
      ],
      compact.replace("{", `{"\\u006beys":${JSON.stringify(set.keys)},`),
    ];
    for (const text of texts) {
      const bytes = Buffer.from(text);
      const expected = await outcome(() => parseKeySet("k", bytes));
      for (const most of [Number.POSITIVE_INFINITY, 7])
        expect([text, await outcome(() => new KeySetReader().read("k", from(bytes, most)))]).toEqual([text, expected]);
    }
  });

  test("takes many turns for many keys, and looks into changed records only", async () => {
    const set = await many(4_000);
    const reader = new KeySetReader();
    const before = await reader.read("k", from(bytesOf(set, 2)));
    expect(before).toEqual(set);
    expect(reader.turns).toBeGreaterThan(1);
    expect(reader.parsed).toBe(4_000);
    const [first, ...rest] = set.keys;
    if (!first) throw new Error("there are keys");
    const changed = bytesOf({ ...set, revision: 2, keys: [...rest, { ...first, name: "b" }] }, 2);
    const after = await reader.read("k", from(changed));
    expect(reader.parsed).toBe(4_001);
    expect(after.keys[0]).toBe(before.keys[1]);
    expect(after.keys.at(-1)?.name).toBe("b");
  });

  test("reads sets larger than its buffer, wherever a piece of the file ends", async () => {
    const set = await many(1_000);
    const [first] = set.keys;
    if (!first) throw new Error("there are keys");
    const long = { ...first, id: generateKeyId(randomBytes), models: Array.from({ length: 300 }, (_, at) => `m${at}`) };
    const whole = { ...set, keys: [...set.keys, long] };
    for (const indent of [undefined, 1, 2, 3, 4, 5]) {
      const reader = new KeySetReader();
      expect(await reader.read("k", from(bytesOf(whole, indent), 100_000 + (indent ?? 0)))).toEqual(whole);
      expect(reader.parsed).toBe(1_001);
    }
    // One record larger than the buffer, or too many bytes after the list: the file is read as a whole.
    const wide = { ...first, allowIps: Array.from({ length: 64 }, () => "10.0.0.0/8"), models: [] as string[] };
    for (let at = 0; at < 10_000; at += 1) wide.models.push(`a model with a long name of its own ${at}`);
    const reader = new KeySetReader();
    expect((await reader.read("k", from(bytesOf({ ...set, keys: [wide] })))).keys[0]?.models).toHaveLength(10_000);
    const blanks = Buffer.concat([bytesOf(set), Buffer.alloc(300_000, " ")]);
    expect(await reader.read("k", from(blanks))).toEqual(set);
    expect(reader.parsed).toBe(1_000);
  });

  test("finds two records with one id, whether they have changed or not", async () => {
    const set = await many(5);
    const [first, second, third, ...rest] = set.keys;
    if (!first || !second || !third) throw new Error("there are keys");
    const reader = new KeySetReader();
    await reader.read("k", from(bytesOf(set)));
    for (const keys of [
      [first, second, { ...third, id: first.id }, ...rest],
      [{ ...first, id: second.id }, second, third, ...rest],
      [{ ...first, id: second.id }, { ...second, name: "b" }, third, ...rest],
      [first, second, third, first, ...rest],
      [first, first],
    ])
      await expect(reader.read("k", from(bytesOf({ ...set, keys })))).rejects.toMatchObject({ fault: "not_valid" });
    // A refused file changes no state.
    const swapped = { ...set, keys: [second, first, third, ...rest] };
    expect(await reader.read("k", from(bytesOf(swapped)))).toEqual(swapped);
    expect(await reader.read("k", from(bytesOf(set)))).toEqual(set);
  });

  test("forgets the records of old files in time", async () => {
    const set = await many(2);
    const reader = new KeySetReader();
    const named = (name: string) => ({ ...set, keys: set.keys.map((key) => ({ ...key, name })) });
    for (let turn = 0; turn < 10; turn += 1) await reader.read("k", from(bytesOf(named(`n${turn}`))));
    expect(reader.parsed).toBe(20);
    await reader.read("k", from(bytesOf(named("n9"))));
    expect(reader.parsed).toBe(20);
    await reader.read("k", from(bytesOf(named("n0"))));
    expect(reader.parsed).toBe(22);
  });
});
