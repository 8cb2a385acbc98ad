import { chmod, cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { auditFileOf } from "../../../../../gateway/keys/audit-log.ts";
import { FileKeyStore } from "../../../../../gateway/keys/file-key-store.ts";
import { pepperFileOf } from "../../../../../gateway/keys/key-file.ts";
import { keyCommand, runKeys } from "../../../../support/processes/key-command.ts";

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-keys-change-"));
  file = join(folder, "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const json = async (command: string, ...rest: readonly string[]) =>
  JSON.parse(await keyCommand(file, command, "--json", ...rest));
const created = (...options: readonly string[]) => json("create", "--name", "ci", "--models", "svc-qwen", ...options);

/** Returns the exit code and the error text. */
async function failing(...argv: readonly string[]): Promise<readonly [code: number, err: string]> {
  const { code, err } = await runKeys(argv, { env: { SVC_KEYS_FILE: file } });
  return [code, err];
}

describe("limits", () => {
  test("every one can be given when the key is made", async () => {
    const options =
      "--rpm 1 --itpm 2 --otpm 3 --concurrency 4 --count-concurrency 8 --queued 5 --max-body-bytes 6 --max-output-tokens 7".split(
        " ",
      );
    const perModel = ["--per-model", "svc-qwen:rpm=8,otpm=9", "--per-model", "svc-glm53:itpm=10,concurrency=11"];
    const { id, limits, quota } = await created(...options, "--tokens-per-day", "12", ...perModel);
    expect(limits).toEqual({
      ...{
        rpm: 1,
        itpm: 2,
        otpm: 3,
        concurrency: 4,
        countConcurrency: 8,
        queued: 5,
        maxBodyBytes: 6,
        maxOutputTokens: 7,
      },
      perModel: { "svc-qwen": { rpm: 8, otpm: 9 }, "svc-glm53": { itpm: 10, concurrency: 11 } },
    });
    expect(quota).toEqual({ tokensPerDay: 12 });
    expect(await keyCommand(file, "show", id)).toMatch(/^svc-qwen +rpm=8,otpm=9$/m);
  });

  test("are changed and cleared one by one, and all at once", async () => {
    const { id } = await created("--rpm", "1", "--otpm", "2", "--per-model", "svc-qwen:rpm=3");
    const changed = await json("set-limits", id, "--rpm", "9", "--tokens-per-day", "5", "--clear", "otpm,svc-qwen");
    expect([changed.limits, changed.quota]).toEqual([{ rpm: 9 }, { tokensPerDay: 5 }]);
    const added = await json("set-limits", id, "--per-model", "svc-qwen:rpm=3", "--per-model", "svc-glm53:otpm=3");
    expect(added.limits).toEqual({ rpm: 9, perModel: { "svc-qwen": { rpm: 3 }, "svc-glm53": { otpm: 3 } } });
    expect((await json("set-limits", id, "--clear", "per-model")).limits).toEqual({ rpm: 9 });
    const cleared = await json("set-limits", id, "--clear", "all");
    expect([cleared.limits, cleared.quota, cleared.revision]).toEqual([{}, {}, 5]);
  });
});

test("models are set", async () => {
  const { id } = await created();
  expect((await json("set-models", id, "svc-glm53,svc-qwen")).models).toEqual(["svc-glm53", "svc-qwen"]);
  expect((await json("set-models", id, "all")).models).toEqual(["*"]);
});

test("the networks of a key are set and removed", async () => {
  const { id } = await created("--allow-ips", "10.0.0.0/8,2001:db8::1");
  expect(await keyCommand(file, "show", id)).toContain("10.0.0.0/8,2001:db8::1");
  expect((await json("set-ips", id, "192.0.2.7")).allowIps).toEqual(["192.0.2.7"]);
  expect((await json("set-ips", id, "any")).allowIps).toBeUndefined();
  for (const wrong of ["10.0.0.0/33", "10.0.0", "fe80::1%eth0", "", "10.0.0.1,", "10.0.0.0/8/8", "10.0.0.0/08"])
    expect((await failing("set-ips", id, wrong))[0]).toBe(2);
});

describe("export and import", () => {
  /** Another store with the same pepper. */
  async function secondStore(): Promise<string> {
    const other = join(folder, "other", "keys.json");
    await mkdir(join(folder, "other"), { mode: 0o700 });
    await cp(pepperFileOf(file), pepperFileOf(other));
    return other;
  }

  test("move keys to another store, where they open as before, without ever showing one", async () => {
    const { key, id } = await created("--rpm", "5");
    const dump = join(folder, "dump.json");
    expect(await keyCommand(file, "export", "--out", dump)).toBe("");
    expect((await stat(dump)).mode & 0o777).toBe(0o600);
    expect(await readFile(dump, "utf8")).not.toContain(key);
    expect(await keyCommand(file, "export")).toBe(await readFile(dump, "utf8"));
    const other = await secondStore();
    expect(await keyCommand(other, "import", dump)).toBe("1 keys added, 0 were here already\n");
    expect(await keyCommand(other, "import", dump)).toBe("0 keys added, 1 were here already\n");
    expect(JSON.parse(await keyCommand(other, "show", "--json", id)).limits).toEqual({ rpm: 5 });
    file = other;
    const [code] = await failing("verify");
    expect(code).toBe(3);
  });

  test("refuse keys that do not fit, and add none then", async () => {
    const { id } = await created();
    const dump = join(folder, "dump.json");
    await keyCommand(file, "export", "--out", dump);
    expect(await failing("import", join(folder, "none"))).toEqual([3, expect.stringContaining("there is no file")]);
    await keyCommand(file, "set-models", id, "all");
    expect(await failing("import", dump)).toEqual([2, `error: the key ${id} is here already, and differs\n`]);
    const theirs = join(folder, "theirs.json");
    await writeFile(theirs, (await readFile(dump, "utf8")).replace(/"pepperId": "\w+"/, '"pepperId": "00000000"'), {
      mode: 0o600,
    });
    expect(await failing("import", theirs)).toEqual([2, `error: the key ${id} was made with another pepper\n`]);
    await writeFile(theirs, "{", { mode: 0o600 });
    expect(await failing("import", theirs)).toEqual([4, expect.stringContaining("is not valid JSON")]);
    await chmod(dump, 0o644);
    expect(await failing("import", dump)).toEqual([4, expect.stringContaining("0600")]);
    await chmod(dump, 0o600);
    file = join(folder, "empty", "keys.json");
    expect(await failing("import", dump)).toEqual([4, expect.stringContaining("pepper is missing")]);
  });
});

describe("fields of a newer release", () => {
  /** Fields of a newer release, in the set, in a record and in a secret. */
  const ADDED = { laterField: { keys: ["a", 1.5, null], nested: { deep: true } }, laterName: "\u{1f511}" };
  const read = async () => JSON.parse(await readFile(file, "utf8"));
  const write = (set: object) => writeFile(file, `${JSON.stringify(set, null, 2)}\n`);
  /** Adds the fields to everything in the key file. */
  const grow = async () => {
    const { keys, ...set } = await read();
    const grown = keys.map(({ secrets, ...record }: { secrets: object[] }) => ({
      ...{ ...record, ...ADDED },
      secrets: secrets.map((secret) => ({ ...secret, ...ADDED })),
    }));
    await write({ ...set, ...ADDED, keys: grown });
  };

  test("are kept by every change, and shown by none", async () => {
    const { id } = await created("--rpm", "5");
    await grow();
    const backup = join(folder, "backup.json");
    const dump = join(folder, "dump.json");
    await keyCommand(file, "export", "--out", dump);
    await cp(file, backup);
    const changes: readonly (readonly [string, ...string[]])[] = [
      ["create", "--name", "other", "--models", "all"],
      ["set-limits", id, "--otpm", "7", "--per-model", "svc-qwen:rpm=2", "--clear", "rpm"],
      ["set-models", id, "svc-glm53"],
      ["set-ips", id, "10.0.0.0/8"],
      ["set-ips", id, "any"],
      ["disable", id, "--kill"],
      ["enable", id],
      ["rotate", id, "--overlap", "1h"],
      ["revoke", id],
      ["restore", backup],
    ];
    for (const change of changes) {
      const { revision } = await read();
      expect(await keyCommand(file, ...change)).not.toContain("later");
      const set = await read();
      expect(set).toMatchObject({ revision: revision + 1, ...ADDED });
      expect(set.keys[0]).toMatchObject({ id, ...ADDED });
      expect(set.keys[0].secrets[0]).toMatchObject(ADDED);
    }
    expect(await keyCommand(file, "show", id, "--json")).not.toContain("later");
    expect(await keyCommand(file, "list", "--json")).not.toContain("later");
    expect(await keyCommand(file, "doctor")).toMatch(/^warning +keys have the field "laterField"/m);

    const others = join(folder, "others", "keys.json");
    await mkdir(join(folder, "others"), { mode: 0o700 });
    await cp(pepperFileOf(file), pepperFileOf(others));
    await keyCommand(others, "import", dump);
    expect(JSON.parse(await readFile(others, "utf8")).keys).toEqual((await read()).keys);
  });

  test.each<readonly [string, (set: { v: number; keys: { v: number; limits: object }[] }) => object, RegExp]>([
    ["set", (set) => ({ ...set, v: 2 }), /at v: it is of another release/],
    [
      "record",
      (set) => ({ ...set, keys: set.keys.map((key) => ({ ...key, v: 2 })) }),
      /at keys\.0\.v: it is of another/,
    ],
    [
      "limit",
      (set) => ({ ...set, keys: set.keys.map((key) => ({ ...key, limits: { images: 1 } })) }),
      /at keys\.0\.limits: unknown field images$/m,
    ],
  ])("that may not be passed over stop all that reads the %s", async (_what, change, why) => {
    const { id } = await created();
    const text = JSON.stringify(change(await read()));
    await writeFile(file, text);
    for (const command of [["list"], ["revoke", id], ["create", "--name", "b", "--models", "all"]])
      expect(await failing(...command)).toEqual([4, expect.stringMatching(why)]);
    expect(await readFile(file, "utf8")).toBe(text);
    await expect(FileKeyStore.open(file, systemClock)).rejects.toThrow(why);
  });
});

describe("the audit log of the commands", () => {
  test("has every change in its order, and no secret", async () => {
    const { id, key } = await created();
    const commands: readonly (readonly [string, ...string[]])[] = [
      ["set-limits", id, "--rpm", "1"],
      ["set-models", id, "all"],
      ["disable", id],
      ["enable", id],
      ["rotate", id],
      ["revoke", id],
    ];
    for (const command of commands) await keyCommand(file, ...command);
    const entries: { action: string; keyId: string; fields: string[] }[] = await json("audit");
    expect(entries.map(({ action }) => action)).toEqual(["create", ...commands.map(([action]) => action)]);
    expect(entries.map(({ fields }) => fields.join())).toEqual([
      ...["", "limits.rpm", "models", "status", "status", "secrets", "status"],
    ]);
    expect(new Set(entries.map(({ keyId }) => keyId))).toEqual(new Set([id]));
    const log = await readFile(auditFileOf(file), "utf8");
    const { keys } = JSON.parse(await readFile(file, "utf8"));
    for (const secret of [key, key.slice(-10), keys[0].secrets[0].hash, keys[0].cacheSalt])
      expect(log).not.toContain(secret);
    expect(await keyCommand(file, "audit")).toContain("limits.rpm");
    expect(await keyCommand(file, "audit", "verify")).toContain("is as it was written: 7 lines");
  });

  test("continues unchanged when an older file is restored, and records it", async () => {
    const { id } = await created();
    await cp(file, join(folder, "backup.json"));
    await json("revoke", id);
    const { id: later } = await created();
    expect(await json("restore", join(folder, "backup.json"))).toEqual({ keys: 1, revision: 4 });
    expect((await keyCommand(file, "list", "--json")).includes(later)).toBe(false);
    const entries: { action: string; keyId: string }[] = await json("audit");
    expect(entries.map(({ action, keyId }) => [action, keyId])).toEqual([
      ["create", id],
      ["revoke", id],
      ["create", later],
      ["restore", "*"],
      ["enable", id],
      ["remove", later],
    ]);
    expect(await keyCommand(file, "audit", "verify")).toContain("is as it was written: 6 lines");
    expect(await failing("restore", join(folder, "nothing.json"))).toEqual([
      4,
      expect.stringContaining("there is no file"),
    ]);
  });

  test("blocks a change that it cannot record", async () => {
    const { id } = await created();
    const before = await readFile(file, "utf8");
    await rm(auditFileOf(file));
    await mkdir(auditFileOf(file));
    expect(await failing("revoke", id)).toEqual([4, expect.stringContaining("so nothing was changed")]);
    expect(await readFile(file, "utf8")).toBe(before);
  });
});
