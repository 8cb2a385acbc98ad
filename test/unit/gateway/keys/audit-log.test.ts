import { appendFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { appendAudit, readAudit } from "../../../../gateway/keys/audit-log.ts";
import type { KeyChange } from "../../../../gateway/keys/key-change.ts";

const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const CHANGE: KeyChange = { action: "set-limits", keyId: "AbcdEfgh1234", fields: ["limits.rpm"] };

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-audit-"));
  file = join(folder, "log");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const append = (revision: number, ...changes: KeyChange[]) => appendAudit(file, changes, revision, NOW + revision);
const text = () => readFile(file, "utf8");

describe("the audit log", () => {
  test("has a line for every change, with who made it, for the owner only", async () => {
    await append(1, CHANGE);
    await append(2, { ...CHANGE, action: "revoke" }, { ...CHANGE, action: "rotate" });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const { entries, brokenAt } = readAudit(await text());
    expect(brokenAt).toBeUndefined();
    expect(entries.map(({ action, revision }) => [action, revision])).toEqual([
      ["set-limits", 1],
      ["revoke", 2],
      ["rotate", 2],
    ]);
    expect(entries[0]).toMatchObject({ ...CHANGE, ts: "2026-03-01T00:00:00.001Z", prev: "0".repeat(64) });
    expect(entries[0]?.actor).toMatchObject({ uid: process.getuid?.() ?? null, host: expect.any(String) });
  });

  test.each<readonly [what: string, alter: (lines: string[]) => string[], brokenAt: number]>([
    ["altered", (lines) => lines.map((line, at) => (at === 1 ? line.replace("revoke", "enable") : line)), 3],
    ["taken out", (lines) => lines.filter((_, at) => at !== 1), 2],
    ["taken from the start", (lines) => lines.slice(1), 1],
    ["put in", (lines) => [...lines.slice(0, 2), lines[0] ?? "", ...lines.slice(2)], 3],
    ["made to nonsense", (lines) => lines.map((line, at) => (at === 3 ? "{}" : line)), 4],
    ["cut", (lines) => [...lines.slice(0, 3), lines[3]?.slice(0, 20) ?? ""], 4],
  ])("shows where a line was %s", async (_what, alter, brokenAt) => {
    for (let revision = 1; revision <= 4; revision += 1) await append(revision, { ...CHANGE, action: "revoke" });
    const lines = (await text()).trimEnd().split("\n");
    const broken = readAudit(`${alter(lines).join("\n")}\n`);
    expect(broken.brokenAt).toBe(brokenAt);
    expect(broken.entries).toHaveLength(brokenAt - 1);
  });

  test("goes on behind a line that a crash cut, and still shows it", async () => {
    await append(1, CHANGE);
    await appendFile(file, '{"ts":"2026');
    await append(2, CHANGE);
    const lines = (await text()).split("\n");
    expect(lines).toHaveLength(4);
    expect(JSON.parse(lines[2] ?? "")).toMatchObject({ revision: 2 });
    expect(readAudit(await text()).brokenAt).toBe(2);
  });

  test("finds its last line however long it has become", async () => {
    await append(1, ...Array<KeyChange>(1_000).fill(CHANGE));
    await append(2, CHANGE);
    const { entries, brokenAt } = readAudit(await text());
    expect([entries.length, brokenAt]).toEqual([1_001, undefined]);
  });

  test("says so when it cannot be written", async () => {
    await mkdir(file);
    await expect(append(1, CHANGE)).rejects.toMatchObject({ fault: "unwritable" });
    await rm(file, { recursive: true });
    await writeFile(join(folder, "x"), "");
    await expect(appendAudit(join(folder, "x", "log"), [CHANGE], 1, NOW)).rejects.toThrow(/so nothing was changed$/);
  });
});
