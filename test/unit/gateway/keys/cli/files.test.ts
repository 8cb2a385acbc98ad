import { randomBytes } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { auditFileOf } from "../../../../../gateway/keys/audit-log.ts";
import { examine } from "../../../../../gateway/keys/cli/doctor.ts";
import { FileKeyVault } from "../../../../../gateway/keys/file-key-vault.ts";
import { pepperFileOf } from "../../../../../gateway/keys/key-file.ts";
import { noteNewest, seenFileOf } from "../../../../../gateway/keys/newest-state.ts";
import { Sealing } from "../../../../../gateway/sealing/sealing.ts";
import { parseSealingKeys } from "../../../../../gateway/sealing/sealing-key.ts";
import { createKey, keyCommand, runKeys } from "../../../../support/processes/key-command.ts";

const DAY = 86_400_000;
/** Above every process id of the supported systems. */
const NOBODY = 2_000_000_000;

let file: string;

beforeEach(async () => {
  file = join(await mkdtemp(join(tmpdir(), "svc-key-files-")), "store", "keys.json");
});

afterEach(() => rm(join(file, "../.."), { recursive: true, force: true }));

/** Findings other than `ok`. */
const complaints = async (nowMs = Date.now()) =>
  (await examine(new FileKeyVault(file), nowMs))
    .filter(({ level }) => level !== "ok")
    .map(({ level, text }) => `${level}: ${text}`);

describe("the doctor", () => {
  test("the doctor finds nothing about a store as the commands leave it", async () => {
    await createKey(file);
    expect(await complaints()).toEqual([]);
    const said = await keyCommand(file, "doctor");
    expect(said).toMatch(/can be used: 1 keys, revision 1/);
    expect(said).toMatch(/the pepper [0-9a-f]{8} fits/);
  });

  const left = (ending: string, text = "") => writeFile(`${file}${ending}`, text, { mode: 0o600 });

  test.each<readonly [what: string, spoil: () => Promise<unknown>, complaint: RegExp]>([
    ["a missing key file", () => rm(file), /^error: there is no key file at/],
    ["a key file that others may read", () => chmod(file, 0o644), /^error: .*should be 0600, or 0440 for a mounted/],
    ["a folder that others may write in", () => chmod(dirname(file), 0o777), /^error: .*its mode should be 0700$/],
    [
      "a key file that is older than one in use",
      () => noteNewest(seenFileOf(file), { revision: 2, index: 0, mac: "" }),
      /^error: .*revision 2 was in use/,
    ],
    ["a missing pepper", () => rm(pepperFileOf(file)), /^error: .*pepper is missing/],
    ["a lock left behind", () => left(".lock", `${NOBODY} ${hostname()} x\n`), /^warning: .*takes it over$/],
    ["a lock that is held", () => left(".lock", `${process.pid} ${hostname()} x\n`), /^warning: .*is held/],
    [
      "a file of a change that was killed",
      () => left(".4711.0123456789ab.tmp", "{}"),
      /^warning: .*keys\.json\.4711\.0123456789ab\.tmp was left behind by a change that was killed/,
    ],
    ["a missing audit log", () => rm(auditFileOf(file)), /^error: there is no audit log at .*, and there was one$/],
    [
      "an altered audit log",
      () => writeFile(auditFileOf(file), "{}\n"),
      /^error: .*not as it was written, from line 1/,
    ],
    [
      "a cut audit log",
      () => writeFile(auditFileOf(file), ""),
      /^error: .*ends at revision 0, and not as .* revision 1/,
    ],
  ])("the doctor of keys finds %s", async (_what, spoil, complaint) => {
    await createKey(file);
    await spoil();
    expect(await complaints()).toEqual([expect.stringMatching(complaint)]);
  });

  test("the doctor finds expired keys, models that are in no catalog, and a weak pepper", async () => {
    await mkdir(dirname(file), { mode: 0o700 });
    await writeFile(pepperFileOf(file), Buffer.alloc(32, 7), { mode: 0o600 });
    await createKey(file, "--name", "short", "--models", "svc-qwen", "--expires", "1d");
    await writeFile(file, (await readFile(file, "utf8")).replace('"svc-qwen"', '"svc-old"'));
    expect(await complaints(Date.now() + 2 * DAY)).toEqual([
      expect.stringMatching(/^warning: the pepper is weak/),
      expect.stringMatching(/^warning: the key \w{12} has expired$/),
      expect.stringMatching(/^warning: the key \w{12} is for svc-old/),
    ]);
  });
});

describe("sealing keys", () => {
  const path = () => join(file, "../../sealing-key");

  async function keys(command: string, ...options: readonly string[]) {
    const { code, out, err } = await runKeys(["--json", "sealing-key", command, path(), ...options]);
    return { code, ids: out === "" ? [] : (JSON.parse(out) as string[]), err };
  }

  const onDisk = async () => parseSealingKeys(await readFile(path()));

  test("sealing keys are created once, as a file with one key, readable by its owner only", async () => {
    const made = await keys("create");
    expect(made).toMatchObject({ code: 0, ids: [expect.stringMatching(/^[0-9a-f]{8}$/)] });
    expect((await stat(path())).mode & 0o777).toBe(0o600);
    expect((await keys("list")).ids).toEqual(made.ids);
    const before = await readFile(path());
    expect(await keys("create")).toMatchObject({ code: 2, err: expect.stringContaining("is there already") });
    expect(await readFile(path())).toEqual(before);
  });

  test("sealing keys after a rotation seal with a new key, and open texts of the previous one", async () => {
    const [first] = (await keys("create")).ids;
    const scope = { tenant: "t", model: "svc-qwen", format: "messages" };
    const sealed = new Sealing(await onDisk()).for(scope).seal("deep");
    const [second, ...kept] = (await keys("rotate")).ids;
    expect(kept).toEqual([first]);
    expect(new Sealing(await onDisk()).for(scope).open(sealed)).toBe("deep");
    const [third, ...others] = (await keys("rotate")).ids;
    expect(others).toEqual([second]);
    expect((await keys("rotate", "--keep", "2")).ids.slice(1)).toEqual([third, second]);
    expect((await keys("rotate", "--keep", "0")).ids).toHaveLength(1);
    for (const keep of ["-1", "16", "x"]) expect((await keys("rotate", `--keep=${keep}`)).code).toBe(2);
  });

  test("sealing keys of bare bytes become lines in a rotation", async () => {
    const bytes = Buffer.concat([randomBytes(31), Buffer.of(0)]);
    await writeFile(path(), bytes, { mode: 0o600 });
    const [only] = (await keys("list")).ids;
    expect((await keys("rotate")).ids[1]).toBe(only);
    expect((await onDisk())[1]?.secret).toEqual(bytes);
  });

  test.each([
    [undefined, "is not there"],
    ["nothing", "not hex digits"],
  ])("sealing keys in an unusable file end with code 4: %j, %s", async (text, reason) => {
    if (text !== undefined) await writeFile(path(), text, { mode: 0o600 });
    expect(await keys("list")).toMatchObject({ code: 4, err: expect.stringContaining(reason) });
    expect((await keys("rotate")).code).toBe(4);
  });
});
