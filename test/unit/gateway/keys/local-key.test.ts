import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createKey, revokeKey } from "../../../../gateway/keys/key-admin.ts";
import { readKeyFile, updateKeyFile } from "../../../../gateway/keys/key-file.ts";
import { indexKeys } from "../../../../gateway/keys/key-index.ts";
import { issueLocalKey } from "../../../../gateway/keys/local-key.ts";
import { createKey as createByCommand } from "../../../support/processes/key-command.ts";

const patient = new AbortController().signal;
const nowMs = 1000;

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-local-key-"));
  file = join(folder, ".svc", "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const issue = (existing?: string) => issueLocalKey({ file, existing, nowMs }, patient);

async function look(key: string) {
  const stored = await readKeyFile(file);
  return stored && indexKeys(stored.set, stored.pepper, "live").look(key, nowMs);
}

test("makes a key for every model", async () => {
  expect(await look(await issue())).toMatchObject({ principal: { models: "all", limits: {} } });
});

test("uses the key of an earlier start again and then writes nothing", async () => {
  const key = await issue();
  const before = await readFile(file, "utf8");
  expect(await issue(key)).toBe(key);
  expect(await readFile(file, "utf8")).toBe(before);
});

test("makes another key when the earlier one opens nothing any more", async () => {
  const key = await issue();
  const id = key.split("_")[2] ?? "";
  await updateKeyFile(file, false, (set) => revokeKey(set, id, nowMs), patient);
  for (const useless of [key, "", "nonsense\n"]) {
    const fresh = await issue(useless);
    expect(fresh).not.toBe(useless);
    expect(await look(fresh)).toHaveProperty("principal");
  }
});

test("makes another key when the earlier one opens some models only", async () => {
  const fields = { name: "narrow", owner: null, env: "live", models: ["svc-qwen"], limits: {}, quota: {} } as const;
  const request = { ...fields, priority: "DEFAULT", weight: 1, expiresAtMs: null } as const;
  const narrow = await updateKeyFile(
    file,
    true,
    (set, pepper) => createKey(set, request, { pepper, nowMs, random: randomBytes }),
    patient,
  );
  expect(await issue(narrow.key)).not.toBe(narrow.key);
});

test("coexists with keys of the command line, whichever came first", async () => {
  const first = await createByCommand(file, "--name", "first", "--models", "all");
  const local = await issue();
  const last = await createByCommand(file, "--name", "last", "--models", "all");
  for (const key of [first, local, last]) expect(await look(key)).toMatchObject({ principal: { models: "all" } });
});
