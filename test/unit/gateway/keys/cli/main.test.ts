import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
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

type Outcome = { readonly code: number; readonly out: string; readonly err: string };

/** Runs a command on the test's key file. */
async function keys(line: string, { stdin, nowMs = NOW }: { stdin?: string; nowMs?: number } = {}): Promise<Outcome> {
  const given = { env: { SVC_KEYS_FILE: file }, nowMs: () => nowMs, ...(stdin !== undefined && { stdin }) };
  const { code, out, err } = await runKeys(line.split(" ").filter(Boolean), given);
  return { code, out, err };
}

async function created(line = "--models svc-qwen"): Promise<{ id: string; key: string }> {
  const { code, out, err } = await keys(`create --name ci --json ${line}`);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return JSON.parse(out);
}

const json = (outcome: Outcome) => JSON.parse(outcome.out);

describe("create", () => {
  test("prints the key once and stores it nowhere", async () => {
    const { code, out, err } = await keys("create --name ci --models svc-qwen --rpm 60");
    expect(code).toBe(0);
    const key = out.match(KEY_PATTERN)?.[0] ?? "";
    expect(out.startsWith(`${key}\n`)).toBe(true);
    expect(out.split(key)).toHaveLength(2);
    expect(err).toMatch(/cannot be shown again/);
    expect(err).not.toContain(key);
    expect(await readFile(file, "utf8")).not.toContain(key);
    expect((await keys("list")).out + (await keys("list --json")).out).not.toContain(key);
    expect((await readdir(folder)).sort()).toEqual(["keys.json", "keys.json.audit.jsonl", "pepper"]);
  });

  test("prints only the key with --quiet, as rotate does", async () => {
    const { code, out, err } = await keys("create --name ci --models svc-qwen --quiet");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toBe(`${out.match(KEY_PATTERN)?.[0]}\n`);
    const rotated = await keys(`rotate ${out.split("_")[2]} --quiet`);
    expect(rotated).toEqual({ code: 0, out: `${rotated.out.match(KEY_PATTERN)?.[0]}\n`, err: "" });
    expect(rotated.out).not.toBe(out);
    expect((await keys("verify", { stdin: rotated.out })).code).toBe(0);
  });

  test("names the catalog for a model that is not in it, and makes no file", async () => {
    const { code, err } = await keys("create --name ci --models svc-qwen,gpt");
    expect(code).toBe(2);
    expect(err).toMatch(/not in the catalog.*svc-glm53, svc-kimik3, svc-qwen, svc-minimax, svc-dsv4flash/i);
    expect(await readdir(folder)).toEqual([]);
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
    "import",
    "audit x",
    `create --name ${"n".repeat(129)} --models svc-qwen`,
    "create --name a\u001b[31m --models svc-qwen",
    "show",
    "rotate x --overlap 1y",
    "list --nonsense",
  ])("usage error: %j", async (line) => {
    const { code, out, err } = await keys(line);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).not.toBe("");
    expect(await readdir(folder)).toEqual([]);
  });

  test("help is no error, and lists the exit codes", async () => {
    const { code, out } = await keys("--help");
    expect(code).toBe(0);
    expect(out).toContain("rotate");
    expect(out).toMatch(/Exit codes: 0 .*2 .*3 .*\s4 .*1 /);
  });
});

describe("list and show", () => {
  test("list lines up one row for each key", async () => {
    const first = await created();
    const second = await created("--models all --owner team");
    const rows = (await keys("list")).out.trimEnd().split("\n");
    expect(rows).toHaveLength(3);
    expect(rows[1]).toMatch(new RegExp(`^${first.id}  ci    -      active  svc-qwen  never$`));
    expect(rows[2]).toMatch(new RegExp(`^${second.id}  ci    team   active  all       never$`));
  });
});

describe("the life of a key", () => {
  test("verify, rotate with an overlap of a day, disable, enable, revoke", async () => {
    const { id, key } = await created();
    const valid = { code: 0, out: `valid ${id}\n` };
    expect(await keys("verify", { stdin: `${key}\n` })).toMatchObject(valid);

    const fresh = json(await keys(`rotate ${id} --json`)).key;
    expect(await keys("verify", { stdin: key, nowMs: NOW + DAY - 1 })).toMatchObject(valid);
    expect(await keys("verify", { stdin: key, nowMs: NOW + DAY })).toMatchObject({ code: 3 });
    expect(await keys("verify", { stdin: fresh, nowMs: NOW + DAY })).toMatchObject(valid);

    for (const [command, state] of [
      ["disable", "disabled"],
      ["enable", "active"],
      ["revoke", "revoked"],
    ] as const) {
      expect(json(await keys(`${command} ${id} --json`))).toMatchObject({ id, state });
    }
    expect(await keys("verify", { stdin: fresh })).toMatchObject({ code: 3, out: "not valid: revoked\n" });
    expect(await keys(`enable ${id}`)).toMatchObject({ code: 2, err: expect.stringContaining("cannot be undone") });
  });
});

describe("exit codes", () => {
  test.each(["show nobodyhasit0", "rotate nobodyhasit0", "revoke nobodyhasit0", "disable x", "enable x"])(
    "3 for an id that no key has: %s",
    async (line) => {
      await created();
      expect(await keys(line)).toEqual({ code: 3, out: "", err: "error: no key has this id\n" });
    },
  );

  test.each([
    ["", "malformed"],
    ["sk-something", "malformed"],
    ["x".repeat(100_000), "malformed"],
  ])("3 for a key that is none, which is not repeated", async (stdin, reason) => {
    await created();
    expect(await keys("verify --json", { stdin })).toEqual({
      code: 3,
      out: `{"valid":false,"reason":"${reason}"}\n`,
      err: "",
    });
  });

  test.each(["list", "show x", "rotate x", "revoke x", "verify"])("4 without a key file: %s", async (line) => {
    expect(await keys(line)).toMatchObject({ code: 4, out: "", err: `error: there is no key file at ${file}\n` });
  });

  test.each(["list", "show x", "rotate x", "create --name ci --models all", "verify"])(
    "4 with a key file that cannot be used: %s",
    async (line) => {
      await writeFile(file, "{", { mode: 0o600 });
      expect(await keys(line)).toMatchObject({ code: 4, out: "", err: `error: ${file} is not valid JSON\n` });
    },
  );
});

test("--file goes before the environment", async () => {
  const other = join(folder, "other", "keys.json");
  expect(await keys(`create --name ci --models all --file ${other}`)).toMatchObject({ code: 0 });
  expect(await readdir(folder)).toEqual(["other"]);
  expect(await keys(`--file ${other} list`)).toMatchObject({ code: 0 });
});
