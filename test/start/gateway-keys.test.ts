import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FleetProcess } from "../support/processes/fleet-process.ts";

/* A gateway without keys, which could not serve any request, does not start. */

const EMPTY = '{"v":1,"revision":0,"keys":[]}';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-gateway-keys-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test.each<[what: string, name: string, text: string | undefined, mode: number, reason: string]>([
  [
    "no key file",
    "keys.json",
    undefined,
    0o600,
    "keys.file: there is no key file at FILE; 'npm run keys -- create --file FILE",
  ],
  ["a cut key file", "keys.json", '{"v":1,', 0o600, "keys.file: FILE is not valid JSON"],
  ["a key file that others may read", "keys.json", EMPTY, 0o644, "keys.file: FILE is open to other users"],
  ["no sealing key", "sealing-key", undefined, 0o600, "sealingKeyFile: FILE is not there"],
  [
    "a short sealing key",
    "sealing-key",
    "0123".repeat(12),
    0o600,
    "sealingKeyFile: FILE: a sealing key has fewer than",
  ],
  [
    "a sealing key that others may read",
    "sealing-key",
    "x".repeat(32),
    0o644,
    "sealingKeyFile: FILE is open to other users",
  ],
])("with %s it ends with code 2, the name of the setting and the reason", async (_what, name, text, mode, reason) => {
  const [file, sealingKeyFile] = [join(folder, "keys.json"), join(folder, "sealing-key")];
  if (name === "sealing-key") await writeFile(file, EMPTY, { mode: 0o600 });
  if (text !== undefined) await writeFile(join(folder, name), text, { mode });
  const listen = { port: 0 };
  const sealing = name === "sealing-key" && { sealingKeyFile };
  const config = { listen, admin: listen, keys: { file }, clusters: [], ...sealing };
  const said = await FleetProcess.start("gateway/main.js", config).then(
    ({ process }) => process.end().then(() => "it started"),
    (error: Error) => error.message,
  );
  expect(said).toContain("ended with 2");
  expect(said).toContain(`gateway: ${reason.replaceAll("FILE", join(folder, name))}`);
});
