import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { auditFileOf } from "../../../../../gateway/keys/audit-log.ts";
import { examine } from "../../../../../gateway/keys/cli/doctor.ts";
import { pepperFileOf } from "../../../../../gateway/keys/key-file.ts";
import { fileKeyVault } from "../../../../../gateway/keys/key-vault.ts";
import { noteSeenRevision } from "../../../../../gateway/keys/seen-revision.ts";
import { createKey, keyCommand } from "../../../../support/processes/key-command.ts";

const DAY = 86_400_000;
/** Above every process id of the supported systems. */
const NOBODY = 2_000_000_000;

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-doctor-"));
  file = join(folder, "store", "keys.json");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Findings other than `ok`. */
const complaints = async (nowMs = Date.now()) =>
  (await examine(fileKeyVault(file), nowMs))
    .filter(({ level }) => level !== "ok")
    .map(({ level, text }) => `${level}: ${text}`);

describe("the doctor", () => {
  test("finds nothing about a store as the commands leave it", async () => {
    await createKey(file, "--name", "ci", "--models", "all");
    expect(await complaints()).toEqual([]);
    const said = await keyCommand(file, "doctor");
    expect(said).toMatch(/can be used: 1 keys, revision 1/);
    expect(said).toMatch(/the pepper [0-9a-f]{8} fits/);
  });

  test.each<readonly [what: string, spoil: () => Promise<unknown>, complaint: RegExp]>([
    ["a missing key file", () => rm(file), /^error: there is no key file at/],
    [
      "a key file that others may read",
      () => chmod(file, 0o644),
      /^error: .*its mode should be 0600, or 0440 for a mounted secret$/,
    ],
    [
      "a folder that others may write in",
      () => chmod(join(folder, "store"), 0o777),
      /^error: .*its mode should be 0700$/,
    ],
    ["a key file that is older than one in use", () => noteSeenRevision(file, 2), /^error: .*revision 2 was in use/],
    ["a missing pepper", () => rm(pepperFileOf(file)), /^error: .*pepper is missing/],
    [
      "a lock left behind",
      () => writeFile(`${file}.lock`, `${NOBODY} ${hostname()} x\n`),
      /^warning: .*takes it over$/,
    ],
    [
      "what a change that was killed has left",
      () => writeFile(`${file}.4711.0123456789ab.tmp`, "{}", { mode: 0o600 }),
      /^warning: .*keys\.json\.4711\.0123456789ab\.tmp was left behind by a change that was killed/,
    ],
    ["a lock that is held", () => writeFile(`${file}.lock`, `${process.pid} ${hostname()} x\n`), /^warning: .*is held/],
    ["a missing audit log", () => rm(auditFileOf(file)), /^error: there is no audit log at .*, and there was one$/],
    [
      "an altered audit log",
      () => writeFile(auditFileOf(file), "{}\n"),
      /^error: .*not as it was written, from line 1 on$/,
    ],
    [
      "an audit log that was cut",
      () => writeFile(auditFileOf(file), ""),
      /^error: .*ends at revision 0, and not as the keys of revision 1 say/,
    ],
  ])("finds %s", async (_what, spoil, complaint) => {
    await createKey(file, "--name", "ci", "--models", "all");
    await spoil();
    expect(await complaints()).toEqual([expect.stringMatching(complaint)]);
  });

  test("finds keys that have expired, and models that are in no catalog", async () => {
    await createKey(file, "--name", "short", "--models", "svc-qwen", "--expires", "1d");
    const later = Date.now() + 2 * DAY;
    expect(await complaints(later)).toEqual([expect.stringMatching(/^warning: the key \w{12} has expired$/)]);
    await writeFile(file, (await readFile(file, "utf8")).replace('"svc-qwen"', '"svc-old"'));
    expect(await complaints()).toEqual([expect.stringMatching(/^warning: the key \w{12} is for svc-old/)]);
  });

  test("finds a pepper that is no chance", async () => {
    await mkdir(join(folder, "store"), { mode: 0o700 });
    await writeFile(pepperFileOf(file), Buffer.alloc(32, 7), { mode: 0o600 });
    await createKey(file, "--name", "ci", "--models", "all");
    expect(await complaints()).toEqual([expect.stringMatching(/^warning: the pepper is weak/)]);
  });
});
