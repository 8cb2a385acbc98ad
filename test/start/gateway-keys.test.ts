import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FleetProcess } from "../support/processes/fleet-process.ts";

/* A gateway without keys, which could not serve any request, does not start. */

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-gateway-keys-"));
  file = join(folder, "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Resolves to the gateway's exit code and output. */
const ending = (more: Readonly<Record<string, string>> = {}) =>
  FleetProcess.start("gateway/main.js", {
    ...more,
    listen: { port: 0 },
    admin: { port: 0 },
    keys: { file },
    clusters: [],
  }).then(
    async ({ process }) => {
      await process.end();
      return "it started";
    },
    (error: Error) => error.message,
  );

test("without its key file it exits with code 2, the setting's name and the remedy", async () => {
  const said = await ending();
  expect(said).toContain("ended with 2");
  expect(said).toContain(`gateway: keys.file: there is no key file at ${file}`);
  expect(said).toContain(`keys -- create --file ${file}`);
});

test.each([
  ["is cut", '{"v":1,', "is not valid JSON"],
  ["is of another release", '{"v":2,"revision":1,"keys":[]}', "at v: it is of another release"],
])("with a key file that %s it ends with code 2", async (_what, text, reason) => {
  await writeFile(file, text, { mode: 0o600 });
  const said = await ending();
  expect(said).toContain("ended with 2");
  expect(said).toContain("keys.file: ");
  expect(said).toContain(reason);
});

test("with a key file that others may read it ends with code 2", async () => {
  await writeFile(file, '{"v":1,"revision":0,"keys":[]}');
  await chmod(file, 0o644);
  const said = await ending();
  expect(said).toContain("ended with 2");
  expect(said).toContain("its mode should be 0600");
});

test.each([
  ["is missing", undefined, 0o600, ": FILE is not there"],
  ["is short", "0123456789abcdef".repeat(3), 0o600, ": FILE: a sealing key has fewer than 32 bytes"],
  ["was thought up", "correct horse battery staple and more", 0o600, ": FILE: a line of it is not hex digits"],
  [
    "everyone can read",
    "x".repeat(32),
    0o644,
    ": FILE is open to other users; its mode should be 0600, or 0440 for a mounted secret",
  ],
])("with a sealing key that %s it ends with code 2", async (_what, text, mode, reason) => {
  await writeFile(file, '{"v":1,"revision":0,"keys":[]}', { mode: 0o600 });
  const sealingKeyFile = join(folder, "sealing-key");
  if (text !== undefined) await writeFile(sealingKeyFile, text, { mode });
  const said = await ending({ sealingKeyFile });
  expect(said).toContain("ended with 2");
  expect(said).toContain(`gateway: sealingKeyFile${reason.replace("FILE", sealingKeyFile)}`);
});
