import { createHash, randomBytes } from "node:crypto";
import { appendFile, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { KeyChange } from "../../../../gateway/keys/audit-log.ts";
import { appendAudit, readAudit } from "../../../../gateway/keys/audit-log.ts";
import { auditFinding } from "../../../../gateway/keys/cli/doctor.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { EMPTY_KEY_SET } from "../../../../gateway/keys/key-record.ts";

const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const CHANGE: KeyChange = { action: "set-limits", keyId: "AbcdEfgh1234", fields: ["limits.rpm"] };

const pepper = makePepper(randomBytes(32));

let folder: string;
let file: string;
/** The head of the chain, as the key set holds it. */
let head: string | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-audit-"));
  file = join(folder, "log");
  head = undefined;
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const append = async (revision: number, ...changes: KeyChange[]) => {
  head = await appendAudit(file, { changes, revision, head, pepper, wallMs: NOW + revision });
};
const text = () => readFile(file, "utf8");
const read = async () => readAudit(await text(), pepper);

/** The doctor's finding about the log for keys of `revision` with the current head. */
const verdict = async (revision: number) => {
  const { level, text: said } = auditFinding(
    "LOG",
    await text(),
    { ...EMPTY_KEY_SET, revision, auditHead: head },
    pepper,
  );
  return `${level}: ${said}`;
};

describe("the audit log", () => {
  test("the audit log has a line for every change, with its author, readable by the owner only", async () => {
    await append(1, CHANGE);
    await append(2, { ...CHANGE, action: "revoke" }, { ...CHANGE, action: "rotate" });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const { entries, brokenAt } = await read();
    expect(brokenAt).toBeUndefined();
    expect(entries.map(({ action, revision }) => [action, revision])).toEqual([
      ["set-limits", 1],
      ["revoke", 2],
      ["rotate", 2],
    ]);
    expect(entries[0]).toMatchObject({ ...CHANGE, ts: "2026-03-01T00:00:00.001Z", prev: "0".repeat(64) });
    expect(entries[0]?.actor).toMatchObject({ uid: process.getuid?.() ?? null, host: expect.any(String) });
  });

  test("the audit log keeps lines of a newer release, which have more fields", async () => {
    const later = { ...CHANGE, laterField: { nested: [1] } };
    await append(1, CHANGE);
    await append(2, later);
    await append(3, CHANGE);
    expect(await text()).toContain("laterField");
    expect(await verdict(3)).toBe("ok: LOG is as it was written: 3 lines");
    await writeFile(file, (await text()).replace("[1]", "[2]"));
    expect((await read()).brokenAt).toBe(2);
  });

  test.each<readonly [what: string, alter: (lines: string[]) => string[], brokenAt: number]>([
    ["altered", (lines) => lines.map((line, at) => (at === 1 ? line.replace("revoke", "enable") : line)), 2],
    ["taken out", (lines) => lines.filter((_, at) => at !== 1), 2],
    ["taken from the start", (lines) => lines.slice(1), 1],
    ["put in", (lines) => [...lines.slice(0, 2), lines[0] ?? "", ...lines.slice(2)], 3],
    ["made to nonsense", (lines) => lines.map((line, at) => (at === 3 ? "{}" : line)), 4],
    ["cut", (lines) => [...lines.slice(0, 3), lines[3]?.slice(0, 20) ?? ""], 4],
  ])("the audit log shows where a line was %s", async (_what, alter, brokenAt) => {
    for (let revision = 1; revision <= 4; revision += 1) await append(revision, { ...CHANGE, action: "revoke" });
    const lines = (await text()).trimEnd().split("\n");
    const broken = readAudit(`${alter(lines).join("\n")}\n`, pepper);
    expect(broken.brokenAt).toBe(brokenAt);
    expect(broken.entries).toHaveLength(brokenAt - 1);
  });

  test("the audit log continues a long log, of which it reads the end alone", async () => {
    await append(1, ...Array.from({ length: 400 }, () => CHANGE));
    expect((await stat(file)).size).toBeGreaterThan(65_536);
    await append(2, CHANGE);
    expect(await verdict(2)).toBe("ok: LOG is as it was written: 401 lines");
  });

  test("the audit log continues after a line that a crash cut, and still shows it", async () => {
    await append(1, CHANGE);
    await appendFile(file, '{"ts":"2026');
    await append(2, CHANGE);
    const lines = (await text()).split("\n");
    expect(lines).toHaveLength(4);
    expect(JSON.parse(lines[2] ?? "")).toMatchObject({ revision: 2 });
    expect((await read()).brokenAt).toBe(2);
  });

  test("the audit log reports a failed write, and follows no link", async () => {
    await writeFile(join(folder, "other"), "");
    await symlink(join(folder, "other"), file);
    await expect(append(1, CHANGE)).rejects.toMatchObject({ fault: "unwritable" });
    expect(await readFile(join(folder, "other"), "utf8")).toBe("");
    await rm(file);
    await mkdir(file);
    await expect(append(1, CHANGE)).rejects.toMatchObject({ fault: "unwritable" });
    await rm(file, { recursive: true });
    await writeFile(join(folder, "x"), "");
    file = join(folder, "x", "log");
    await expect(append(1, CHANGE)).rejects.toThrow(/so nothing was changed$/);
  });
});

/** Lines of an earlier release, without MACs, each with the digest of the one before. */
function plainLog(changes: readonly KeyChange[]): string {
  let prev = "0".repeat(64);
  const actor = { uid: 0, host: "h", program: "keys" };
  const lines = changes.map((change, at) => {
    const line = JSON.stringify({ ts: new Date(NOW).toISOString(), actor, ...change, revision: at + 1, prev });
    prev = createHash("sha256").update(line).digest("hex");
    return `${line}\n`;
  });
  return lines.join("");
}

describe("D13 verifying the log", () => {
  const lines = async () => (await text()).trimEnd().split("\n");
  const write = (kept: readonly string[]) => writeFile(file, kept.map((line) => `${line}\n`).join(""));

  test("verifying the log detects a log that was forged without the pepper, keyed or not", async () => {
    await append(1, CHANGE, CHANGE);
    await append(2, CHANGE);
    expect(await verdict(2)).toBe("ok: LOG is as it was written: 3 lines");
    await writeFile(file, plainLog([CHANGE, CHANGE]));
    expect(await verdict(2)).toBe("error: LOG is not as it was written, from line 1 on");
    const known = head;
    await rm(file);
    head = undefined;
    await appendAudit(file, { changes: [CHANGE], revision: 2, head, pepper: makePepper(randomBytes(32)), wallMs: NOW });
    head = known;
    expect(await verdict(2)).toBe("error: LOG is not as it was written, from line 1 on");
  });

  test("verifying the log detects a log whose end was cut off, also after the next change", async () => {
    for (let revision = 1; revision <= 3; revision += 1) await append(revision, CHANGE);
    await write((await lines()).slice(0, 2));
    expect(await verdict(3)).toMatch(/^error: LOG ends at revision 2, .*lines are missing/);
    await append(4, CHANGE);
    expect(await verdict(4)).toBe("error: LOG is not as it was written, from line 3 on");
    await rm(file);
    await append(5, CHANGE);
    expect(await verdict(5)).toBe("error: LOG is not as it was written, from line 1 on");
  });

  test("verifying the log detects a log that was cut together with its head in the key set", async () => {
    for (let revision = 1; revision <= 3; revision += 1) await append(revision, CHANGE);
    await write((await lines()).slice(0, 2));
    head = undefined;
    expect(await verdict(3)).toMatch(/^error: /);
    await append(4, CHANGE);
    expect(await verdict(4)).toBe("error: LOG is not as it was written, from line 3 on");
  });

  test("verifying the log leaves a log of an earlier release alone, and says what to do", async () => {
    await writeFile(file, plainLog([CHANGE]));
    expect(await verdict(1)).toMatch(/^warning: LOG: an earlier release wrote it, without signatures: move it away/);
    await expect(append(2, CHANGE)).rejects.toThrow(/log: an earlier release wrote it, .* move it away/);
    await rm(file);
    await append(2, CHANGE);
    expect(await verdict(2)).toBe("ok: LOG is as it was written: 1 lines");
  });

  test("verifying the log continues after an interrupted first change", async () => {
    await append(1, CHANGE);
    head = undefined;
    await append(1, CHANGE);
    expect(await verdict(1)).toBe("ok: LOG is as it was written: 3 lines");
    expect((await read()).entries.map(({ action }) => action)).toEqual(["set-limits", "broken-off", "set-limits"]);
  });
});
