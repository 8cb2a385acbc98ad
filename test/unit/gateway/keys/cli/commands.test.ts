import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { auditFileOf } from "../../../../../gateway/keys/audit-log.ts";
import { parseDurationMs, parseModels, readLine } from "../../../../../gateway/keys/cli/options.ts";
import { FileKeyStore } from "../../../../../gateway/keys/file-key-store.ts";
import { pepperFileOf } from "../../../../../gateway/keys/key-file.ts";
import { KEY_PATTERN } from "../../../../../gateway/keys/key-format.ts";
import { runKeys } from "../../../../support/processes/key-command.ts";

const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const DAY = 86_400_000;

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-keys-cli-"));
  file = join(folder, "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Runs a command on the test's key file. */
async function keys(line: string, { stdin = "", nowMs = NOW }: { stdin?: string; nowMs?: number } = {}) {
  const given = { env: { SVC_KEYS_FILE: file }, nowMs: () => nowMs, stdin };
  const { code, out, err } = await runKeys(line.split(" ").filter(Boolean), given);
  return { code, out, err };
}

/** Resolves to the output of a command that succeeds. */
async function done(line: string): Promise<string> {
  const { code, out, err } = await keys(line);
  expect([line, code, err]).toEqual([line, 0, ""]);
  return out;
}

const json = async (line: string) => JSON.parse(await done(`${line} --json`));
const created = (options = "--models svc-qwen") => json(`create --name ci ${options}`);
const onDisk = async () => JSON.parse(await readFile(file, "utf8"));

describe("create", () => {
  test("create prints the key once and stores it nowhere", async () => {
    const { code, out, err } = await keys("create --name ci --models svc-qwen --rpm 60");
    expect(code).toBe(0);
    const key = out.match(KEY_PATTERN)?.[0] ?? "";
    expect(out.startsWith(`${key}\n`)).toBe(true);
    expect(out.split(key)).toHaveLength(2);
    expect(err).toMatch(/cannot be shown again/);
    expect(err).not.toContain(key);
    expect(await readFile(file, "utf8")).not.toContain(key);
    expect((await done("list")) + (await done("list --json"))).not.toContain(key);
    expect((await readdir(folder)).sort()).toEqual(["keys.json", "keys.json.audit.jsonl", "pepper"]);
  });

  test("create prints only the key with --quiet, as rotate does", async () => {
    const key = await done("create --name ci --models svc-qwen --quiet");
    expect(key).toBe(`${key.match(KEY_PATTERN)?.[0]}\n`);
    const rotated = await done(`rotate ${key.split("_")[2]} --quiet`);
    expect(rotated).toBe(`${rotated.match(KEY_PATTERN)?.[0]}\n`);
    expect(rotated).not.toBe(key);
    expect((await keys("verify", { stdin: rotated })).code).toBe(0);
  });

  test("create makes keys for load tests on demand alone", async () => {
    expect(await created("--models svc-qwen --load-tests")).toMatchObject({ loadTests: true });
    expect(await created()).not.toHaveProperty("loadTests");
  });

  test("create names the catalog for a model that is not in it, and makes no file", async () => {
    const { code, err } = await keys("create --name ci --models svc-qwen,gpt");
    expect(code).toBe(2);
    expect(err).toMatch(/not in the catalog.*svc-glm53, svc-kimik3, svc-qwen, svc-minimax, svc-dsv4flash/i);
    expect(await readdir(folder)).toEqual([]);
  });
});

test.each([
  "",
  "unknown",
  "create --models svc-qwen",
  "create --name ci",
  "create --name ci --models svc-qwen --rpm 0",
  "create --name ci --models svc-qwen --rpm 1.5",
  "create --name ci --models svc-qwen --expires 0",
  "create --name ci --models svc-qwen --expires soon",
  "create --name ci --models svc-qwen --weight 1001",
  "create --name ci --models svc-qwen --priority TOP",
  "create --name ci --models svc-qwen extra",
  "create --name ci --models svc-qwen --tokens-per-day 0",
  "create --name ci --models svc-qwen --per-model rpm=1",
  "create --name ci --models svc-qwen --per-model gpt:rpm=1",
  "create --name ci --models svc-qwen --per-model svc-qwen:queued=1",
  "create --name ci --models svc-qwen --per-model svc-qwen:rpm=x",
  "set-limits",
  "set-limits x",
  "set-limits x --clear speed",
  "set-models x",
  "set-models x gpt",
  "set-ips x 10.0.0.0/33",
  "set-ips x 10.0.0.1,",
  "import",
  "audit x",
  `create --name ${"n".repeat(129)} --models svc-qwen`,
  "create --name a\u001b[31m --models svc-qwen",
  "show",
  "rotate x --overlap 1y",
  "list --nonsense",
])("usage error: %j", async (line) => {
  expect(await keys(line)).toEqual({ code: 2, out: "", err: expect.stringMatching(/./) });
  expect(await readdir(folder)).toEqual([]);
});

test("a wrong option is answered with the way to the help", async () => {
  expect((await keys("list --nonsense")).err).toBe(
    "error: unknown option '--nonsense'\n(--help lists the commands and options)\n",
  );
});

test("help is no error, and lists the exit codes", async () => {
  const help = await done("--help");
  expect(help).toContain("rotate");
  expect(help).toMatch(/Exit codes: 0 .*2 .*3 .*\s4 .*1 /);
});

test("--file precedes the environment", async () => {
  const other = join(folder, "other", "keys.json");
  await json(`create --name ci --models all --file ${other}`);
  expect(await readdir(folder)).toEqual(["other"]);
  await done(`--file ${other} list`);
});

test("list lines up one row for each key", async () => {
  const first = await created();
  const second = await created("--models all --owner team");
  const rows = (await done("list")).trimEnd().split("\n");
  expect(rows).toHaveLength(3);
  expect(rows[1]).toMatch(new RegExp(`^${first.id}  ci    -      active  svc-qwen  never$`));
  expect(rows[2]).toMatch(new RegExp(`^${second.id}  ci    team   active  all       never$`));
});

test("verify, rotate with an overlap of a day, disable, enable, revoke", async () => {
  const { id, key } = await created();
  const valid = { code: 0, out: `valid ${id}\n` };
  expect(await keys("verify", { stdin: `${key}\n` })).toMatchObject(valid);
  const fresh = (await json(`rotate ${id}`)).key;
  expect(await keys("verify", { stdin: key, nowMs: NOW + DAY - 1 })).toMatchObject(valid);
  expect(await keys("verify", { stdin: key, nowMs: NOW + DAY })).toMatchObject({ code: 3 });
  expect(await keys("verify", { stdin: fresh, nowMs: NOW + DAY })).toMatchObject(valid);
  for (const [command, state] of [
    ["disable", "disabled"],
    ["enable", "active"],
    ["revoke", "revoked"],
  ])
    expect(await json(`${command} ${id}`)).toMatchObject({ id, state });
  expect(await keys("verify", { stdin: fresh })).toMatchObject({ code: 3, out: "not valid: revoked\n" });
  expect(await keys(`enable ${id}`)).toMatchObject({ code: 2, err: expect.stringContaining("cannot be undone") });
});

describe("exit codes", () => {
  test.each(["show", "rotate", "revoke", "disable", "enable"])("3 for an id that no key has: %s", async (command) => {
    await created();
    expect(await keys(`${command} x`)).toEqual({ code: 3, out: "", err: "error: no key has this id\n" });
  });

  test.each(["", "sk-something", "x".repeat(100_000)])(
    "3 for a key that is none, not repeated: %.9s",
    async (stdin) => {
      await created();
      const out = '{"valid":false,"reason":"malformed"}\n';
      expect(await keys("verify --json", { stdin })).toEqual({ code: 3, out, err: "" });
    },
  );

  test.each(["list", "show x", "rotate x", "revoke x", "verify"])("4 without a usable key file: %s", async (line) => {
    expect(await keys(line)).toEqual({ code: 4, out: "", err: `error: there is no key file at ${file}\n` });
    await writeFile(file, "{", { mode: 0o600 });
    for (const each of [line, "create --name ci --models all"])
      expect(await keys(each)).toEqual({ code: 4, out: "", err: `error: ${file} is not valid JSON\n` });
  });
});

test("every limit can be given when the key is made", async () => {
  const counts = "--rpm 1 --itpm 2 --otpm 3 --concurrency 4 --count-concurrency 8 --queued 5";
  const sizes = "--max-body-bytes 6 --max-output-tokens 7 --tokens-per-day 12";
  const perModel = "--per-model svc-qwen:rpm=8,otpm=9 --per-model svc-glm53:itpm=10,concurrency=11";
  const { id, limits, quota } = await created(`--models all ${counts} ${sizes} ${perModel}`);
  expect(limits).toEqual({
    ...{ rpm: 1, itpm: 2, otpm: 3, concurrency: 4, countConcurrency: 8, queued: 5 },
    ...{ maxBodyBytes: 6, maxOutputTokens: 7 },
    perModel: { "svc-qwen": { rpm: 8, otpm: 9 }, "svc-glm53": { itpm: 10, concurrency: 11 } },
  });
  expect(quota).toEqual({ tokensPerDay: 12 });
  expect(await done(`show ${id}`)).toMatch(/^svc-qwen +rpm=8,otpm=9$/m);
});

test("limits are changed and cleared one by one, and all at once", async () => {
  const { id } = await created("--models all --rpm 1 --otpm 2 --per-model svc-qwen:rpm=3");
  const changed = await json(`set-limits ${id} --rpm 9 --tokens-per-day 5 --clear otpm,svc-qwen`);
  expect([changed.limits, changed.quota]).toEqual([{ rpm: 9 }, { tokensPerDay: 5 }]);
  const added = await json(`set-limits ${id} --per-model svc-qwen:rpm=3 --per-model svc-glm53:otpm=3`);
  expect(added.limits).toEqual({ rpm: 9, perModel: { "svc-qwen": { rpm: 3 }, "svc-glm53": { otpm: 3 } } });
  expect((await json(`set-limits ${id} --clear per-model`)).limits).toEqual({ rpm: 9 });
  const cleared = await json(`set-limits ${id} --clear all`);
  expect([cleared.limits, cleared.quota, cleared.revision]).toEqual([{}, {}, 5]);
});

test("models and networks of a key are set and removed", async () => {
  const { id } = await created("--models svc-qwen --allow-ips 10.0.0.0/8,2001:db8::1");
  expect((await json(`set-models ${id} svc-glm53,svc-qwen`)).models).toEqual(["svc-glm53", "svc-qwen"]);
  expect((await json(`set-models ${id} all`)).models).toEqual(["*"]);
  expect(await done(`show ${id}`)).toContain("10.0.0.0/8,2001:db8::1");
  expect((await json(`set-ips ${id} 192.0.2.7`)).allowIps).toEqual(["192.0.2.7"]);
  expect((await json(`set-ips ${id} any`)).allowIps).toBeUndefined();
});

/** Another store with the same pepper. */
async function secondStore(): Promise<string> {
  const other = join(folder, "other", "keys.json");
  await mkdir(join(folder, "other"), { mode: 0o700 });
  await cp(pepperFileOf(file), pepperFileOf(other));
  return other;
}

test("export and import move keys to another store, where they open as before, without showing one", async () => {
  const { key, id } = await created("--models all --rpm 5");
  const dump = join(folder, "dump.json");
  expect(await done(`export --out ${dump}`)).toBe("");
  expect((await stat(dump)).mode & 0o777).toBe(0o600);
  expect(await readFile(dump, "utf8")).not.toContain(key);
  expect(await done("export")).toBe(await readFile(dump, "utf8"));
  file = await secondStore();
  expect(await done(`import ${dump}`)).toBe("1 keys added, 0 were here already\n");
  expect(await done(`import ${dump}`)).toBe("0 keys added, 1 were here already\n");
  expect((await json(`show ${id}`)).limits).toEqual({ rpm: 5 });
  expect((await keys("verify", { stdin: key })).code).toBe(0);
});

test("import refuses keys that do not fit, and adds none then", async () => {
  const { id } = await created();
  const dump = join(folder, "dump.json");
  await done(`export --out ${dump}`);
  const refused = async (path: string, code: number, err: string) =>
    expect(await keys(`import ${path}`)).toEqual({ code, out: "", err: expect.stringContaining(err) });
  await refused(join(folder, "none"), 3, "there is no file");
  await done(`set-models ${id} all`);
  await refused(dump, 2, `error: the key ${id} is here already, and differs\n`);
  const theirs = join(folder, "theirs.json");
  const foreign = (await readFile(dump, "utf8")).replace(/"pepperId": "\w+"/, '"pepperId": "00000000"');
  await writeFile(theirs, foreign, { mode: 0o600 });
  await refused(theirs, 2, `error: the key ${id} was made with another pepper\n`);
  await writeFile(theirs, "{");
  await refused(theirs, 4, "is not valid JSON");
  await chmod(theirs, 0o644);
  await refused(theirs, 4, "0600");
  file = join(folder, "empty", "keys.json");
  await refused(dump, 4, "pepper is missing");
});

describe("fields of a newer release", () => {
  /** Fields of a newer release, in the set, in a record and in a secret. */
  const ADDED = { laterField: { keys: ["a", 1.5, null], nested: { deep: true } }, laterName: "\u{1f511}" };

  test("fields of a newer release are kept by every change, and shown by none", async () => {
    const { id } = await created("--models all --rpm 5");
    const { keys: records, ...rest } = await onDisk();
    const [{ secrets, ...record }] = records;
    const grown = { ...record, ...ADDED, secrets: [{ ...secrets[0], ...ADDED }] };
    await writeFile(file, `${JSON.stringify({ ...rest, ...ADDED, keys: [grown] }, null, 2)}\n`);
    const [backup, dump] = [join(folder, "backup.json"), join(folder, "dump.json")];
    await done(`export --out ${dump}`);
    await cp(file, backup);
    for (const change of [
      "create --name other --models all --quiet",
      `set-limits ${id} --otpm 7 --per-model svc-qwen:rpm=2 --clear rpm`,
      `set-models ${id} svc-glm53`,
      `set-ips ${id} 10.0.0.0/8`,
      `set-ips ${id} any`,
      `disable ${id} --kill`,
      `enable ${id}`,
      `rotate ${id} --overlap 1h --quiet`,
      `revoke ${id}`,
      `restore ${backup}`,
    ]) {
      const { revision } = await onDisk();
      expect(await done(change)).not.toContain("later");
      const set = await onDisk();
      expect(set).toMatchObject({ revision: revision + 1, ...ADDED });
      expect(set.keys[0]).toMatchObject({ id, ...ADDED });
      expect(set.keys[0].secrets[0]).toMatchObject(ADDED);
    }
    for (const read of [`show ${id} --json`, "list --json"]) expect(await done(read)).not.toContain("later");
    expect(await done("doctor")).toMatch(/^warning +keys have the field "laterField"/m);
    const { keys: now } = await onDisk();
    file = await secondStore();
    await done(`import ${dump}`);
    expect((await onDisk()).keys).toEqual(now);
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
  ])("fields of a newer release that must not be ignored stop all that reads the %s", async (_what, change, why) => {
    const { id } = await created();
    const text = JSON.stringify(change(await onDisk()));
    await writeFile(file, text);
    for (const command of ["list", `revoke ${id}`, "create --name b --models all"])
      expect(await keys(command)).toEqual({ code: 4, out: "", err: expect.stringMatching(why) });
    expect(await readFile(file, "utf8")).toBe(text);
    await expect(FileKeyStore.open(file, systemClock)).rejects.toThrow(why);
  });
});

describe("the audit log of the commands", () => {
  test("the audit log of the commands has every change in its order, and no secret", async () => {
    const { id, key } = await created();
    const commands = ["set-limits ID --rpm 1", "set-models ID all", "disable ID", "enable ID", "rotate ID --quiet"];
    for (const command of [...commands, "revoke ID"]) await done(command.replace("ID", id));
    const entries: { action: string; keyId: string; fields: string[] }[] = await json("audit");
    expect(entries.map(({ action, fields }) => `${action} ${fields}`)).toEqual([
      ...["create ", "set-limits limits.rpm", "set-models models", "disable status", "enable status"],
      ...["rotate secrets", "revoke status"],
    ]);
    expect(new Set(entries.map(({ keyId }) => keyId))).toEqual(new Set([id]));
    const log = await readFile(auditFileOf(file), "utf8");
    const [record] = (await onDisk()).keys;
    for (const secret of [key, key.slice(-10), record.secrets[0].hash, record.cacheSalt])
      expect(log).not.toContain(secret);
    expect(await done("audit")).toContain("limits.rpm");
    expect(await done("audit verify")).toContain("is as it was written: 7 lines");
  });

  test("the audit log continues unchanged when an older file is restored, and records it", async () => {
    const { id } = await created();
    const backup = join(folder, "backup.json");
    await cp(file, backup);
    await json(`revoke ${id}`);
    const { id: later } = await created();
    expect(await json(`restore ${backup}`)).toEqual({ keys: 1, revision: 4 });
    expect(await done("list --json")).not.toContain(later);
    const entries: { action: string; keyId: string }[] = await json("audit");
    expect(entries.map(({ action, keyId }) => `${action} ${keyId}`)).toEqual([
      ...[`create ${id}`, `revoke ${id}`, `create ${later}`, "restore *", `enable ${id}`, `remove ${later}`],
    ]);
    expect(await done("audit verify")).toContain("is as it was written: 6 lines");
    const none = await keys(`restore ${join(folder, "nothing.json")}`);
    expect(none).toMatchObject({ code: 4, err: expect.stringContaining("there is no file") });
  });

  test("the audit log of the commands blocks a change that it cannot record", async () => {
    const { id } = await created();
    const before = await readFile(file, "utf8");
    await rm(auditFileOf(file));
    await mkdir(auditFileOf(file));
    const failed = { code: 4, err: expect.stringContaining("so nothing was changed") };
    expect(await keys(`revoke ${id}`)).toMatchObject(failed);
    expect(await readFile(file, "utf8")).toBe(before);
  });
});

async function* chunks(list: readonly (string | Uint8Array)[], taken: unknown[] = []) {
  for (const chunk of list) {
    taken.push(chunk);
    yield chunk;
  }
}

test.each([
  ["nothing", [], ""],
  ["a line without an end", ["key"], "key"],
  ["a line with blanks and its end", ["  key \r\n"], "key"],
  ["a line in pieces", ["k", "e", "y\nmore"], "key"],
  ["bytes, also when a character is cut", [Buffer.from([0xc3]), Buffer.from([0xa9, 0x0a])], "é"],
])("the line on standard input may be %s", async (_, list, line) => {
  expect(await readLine(chunks(list), 100)).toBe(line);
});

test("standard input is read no further than necessary", async () => {
  const short: unknown[] = [];
  const long: unknown[] = [];
  await readLine(chunks(["key\n", "more"], short), 100);
  await readLine(chunks(["x".repeat(60), "x".repeat(60), "x"], long), 100);
  expect([short, long.length]).toEqual([["key\n"], 2]);
});

test("models are named by ids, by a plus and an id, or by all; a typo is reported", () => {
  const models = ["svc-qwen", "svc-glm53", "own-model.v2"];
  expect(parseModels("svc-qwen, svc-glm53,svc-qwen, +own-model.v2")).toEqual(models);
  expect(parseModels("all")).toEqual(["*"]);
  for (const typo of ["svc-qwne", "own-model", "+", "+a/b", ""])
    expect(() => parseModels(typo)).toThrow("Not in the catalog.");
});

test("durations have a unit, except for 0, and at most a century", () => {
  const known = { "0": 0, "0h": 0, "90s": 90_000, "30m": 1_800_000, "24h": DAY, "90d": 90 * DAY };
  for (const [text, ms] of Object.entries(known)) expect([text, parseDurationMs(text)]).toEqual([text, ms]);
  for (const text of ["", "24", "h", "-1h", "1.5h", "1w", "1h ", "36501d", "999999999999d"])
    expect(() => parseDurationMs(text), text).toThrow("Expected a duration");
});
