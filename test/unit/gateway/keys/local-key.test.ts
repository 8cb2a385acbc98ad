import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { revokeKey } from "../../../../gateway/keys/key-admin.ts";
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

test("makes another key when the earlier one opens nothing any more, or some models only", async () => {
  const key = await issue();
  const id = key.split("_")[2] ?? "";
  await updateKeyFile(file, false, (set) => revokeKey(set, id, nowMs), patient);
  const narrow = await createByCommand(file, "--name", "narrow", "--models", "svc-qwen");
  for (const useless of [key, narrow, "", "nonsense\n"]) {
    const fresh = await issue(useless);
    expect(fresh).not.toBe(useless);
    expect(await look(fresh)).toHaveProperty("principal");
  }
});
