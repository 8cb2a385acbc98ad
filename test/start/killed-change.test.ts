import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { keyCommand } from "../support/processes/key-command.ts";

/* A change of keys that is killed after its audit line and before its key file is replaced. */

const PROGRAM = join(import.meta.dirname, "../../dist/gateway/keys/cli/main.js");

const KILLER = `import fs from "node:fs"; import { syncBuiltinESMExports } from "node:module";
fs.promises.rename = () => { process.kill(process.pid, "SIGKILL"); return new Promise(() => {}); };
syncBuiltinESMExports();`;

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-killed-change-"));
  file = join(folder, "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Runs a command for keys that is killed; resolves to its signal. */
function killed(...args: readonly string[]): Promise<string | undefined> {
  const killer = `--import=data:text/javascript,${encodeURIComponent(KILLER)}`;
  return new Promise((resolve) => {
    execFile(process.execPath, [killer, PROGRAM, "--file", file, ...args], (error) =>
      resolve(error?.signal ?? undefined),
    );
  });
}

test("it leaves nothing behind that the next change does not settle", async () => {
  const key = (await keyCommand(file, "create", "--name", "one", "--models", "all", "--quiet")).trim();
  const id = key.split("_")[2] ?? "";
  for (let times = 0; times < 2; times += 1)
    expect(await killed("create", "--name", "never", "--models", "all")).toBe("SIGKILL");
  const left = (await readdir(folder)).filter((name) => name.endsWith(".tmp"));
  expect(left).not.toEqual([]);
  await expect(keyCommand(file, "audit", "verify")).rejects.toThrow("ended with 4");

  await keyCommand(file, "revoke", id);
  expect((await readdir(folder)).sort()).toEqual(["keys.json", "keys.json.audit.jsonl", "pepper"]);
  expect(JSON.parse(await keyCommand(file, "list", "--json"))).toMatchObject([{ id, state: "revoked" }]);
  expect(await keyCommand(file, "audit", "verify")).toContain("is as it was written");
  const entries: { action: string; revision: number }[] = JSON.parse(await keyCommand(file, "audit", "--json"));
  expect(entries.map(({ action, revision }) => `${revision} ${action}`)).toEqual([
    ...["1 create", "2 create", "2 broken-off", "2 create", "2 broken-off", "2 revoke"],
  ]);
  expect(await keyCommand(file, "doctor")).not.toContain("warning");
});
