import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { writePrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { FollowedSealing } from "../../../gateway/sealing/followed-sealing.ts";
import { Sealing, type SealScope } from "../../../gateway/sealing/sealing.ts";
import {
  makeSealingKey,
  newSealingKey,
  parseSealingKeys,
  type SealingKeys,
  sealingKeysText,
} from "../../../gateway/sealing/sealing-key.ts";
import { until } from "../../support/until.ts";

const SCOPE: SealScope = { tenant: "t", model: "svc-qwen", format: "responses" };
const TEXT = "Because the sky is blue.";

describe("a sealed text", () => {
  test("a sealed text opens in its scope, and hides its content", () => {
    const sealing = new Sealing();
    const sealed = sealing.for(SCOPE).seal(TEXT);
    expect(Buffer.from(sealed, "base64").toString("latin1")).not.toContain("sky");
    expect(sealing.for({ ...SCOPE }).open(sealed)).toBe(TEXT);
    expect(sealing.for(SCOPE).seal(TEXT)).not.toBe(sealed);
    expect(sealing.openings).toEqual({ opened: 1, unknown_key: 0, refused: 0 });
  });

  test.each([
    ["another tenant", { tenant: "u" }, false],
    ["another model", { model: "svc-glm53" }, true],
    ["another format", { format: "messages" }, false],
  ])("a sealed text opens for no %s, except for a summary: %j %s", (_what, other, opensSummary) => {
    const sealing = new Sealing();
    const [sealer, foreign] = [sealing.for(SCOPE), sealing.for({ ...SCOPE, ...other })];
    expect(foreign.open(sealer.seal(TEXT))).toBeUndefined();
    expect(sealing.openings).toMatchObject({ opened: 0, refused: 1 });
    expect(foreign.open(sealer.seal(TEXT, "summary"), "summary")).toBe(opensSummary ? TEXT : undefined);
    expect(sealer.open(sealer.seal(TEXT), "summary")).toBeUndefined();
    expect(sealer.open(sealer.seal(TEXT, "summary"))).toBeUndefined();
  });

  test("a sealed text does not open with one bit of it changed, wherever that is, or with the id of another key", () => {
    const [one, two] = [newSealingKey(), newSealingKey()];
    const sealing = new Sealing([one, two]);
    const sealer = sealing.for(SCOPE);
    const bytes = Buffer.from(sealer.seal(TEXT), "base64");
    for (const [at, byte] of bytes.entries()) {
      const changed = Buffer.from(bytes);
      changed[at] = byte ^ 1;
      expect(sealer.open(changed.toString("base64"))).toBeUndefined();
    }
    // A changed key id is unknown.
    expect(sealing.openings).toMatchObject({ opened: 0, unknown_key: 4 });
    bytes.write(two.id, 1, "hex");
    expect(sealer.open(bytes.toString("base64"))).toBeUndefined();
  });

  test.each(["", "AA==", "not base64 at all", "x".repeat(100_000), Buffer.alloc(64, 2).toString("base64")])(
    "is not %.20s",
    (foreign) => expect(new Sealing().for(SCOPE).open(foreign)).toBeUndefined(),
  );

  test("a sealed text is sealed by the first key and opened by all in force, also in a request that has begun", () => {
    const [older, newer] = [newSealingKey(), newSealingKey()];
    const lacking: string[] = [];
    const sealing = new Sealing([older], (id) => lacking.push(id));
    const sealer = sealing.for(SCOPE);
    const before = sealer.seal(TEXT);
    sealing.use([newer, older]);
    const after = sealer.seal(TEXT);
    expect([before, after].map((sealed) => sealing.for(SCOPE).open(sealed))).toEqual([TEXT, TEXT]);
    expect(new Sealing([newer]).for(SCOPE).open(after)).toBe(TEXT);
    sealing.use([newer]);
    expect(sealing.for(SCOPE).open(before)).toBeUndefined();
    expect([lacking, sealing.openings.unknown_key]).toEqual([[older.id], 1]);
  });
});

test("a signature is the same for the same text, and another one for whatever differs", () => {
  const keys = [newSealingKey()] as const;
  const sign = (scope: SealScope, text: string) => new Sealing(keys).for(scope).sign(text);
  const made = [
    sign(SCOPE, TEXT),
    sign(SCOPE, `${TEXT} `),
    sign({ ...SCOPE, tenant: "u" }, TEXT),
    sign({ ...SCOPE, model: "svc-glm53" }, TEXT),
    new Sealing().for(SCOPE).sign(TEXT),
  ];
  expect(new Set(made).size).toBe(made.length);
  expect(sign(SCOPE, TEXT)).toBe(made[0]);
});

const hex = () => randomBytes(32).toString("hex");
const parse = (text: string) => parseSealingKeys(Buffer.from(text));

describe("a file of sealing keys", () => {
  test("a file of sealing keys holds the bytes of one key, or hex digits of several with notes between, and reads back as written", () => {
    for (const length of [32, 48, 64]) {
      const bytes = Buffer.concat([randomBytes(length - 1), Buffer.of(0)]);
      expect(parseSealingKeys(bytes)).toEqual([makeSealingKey(bytes)]);
    }
    const [one, two] = [hex(), hex()];
    const keys = [one, two].map((text) => makeSealingKey(Buffer.from(text, "hex")));
    expect(parse(`${one.toUpperCase()}\n`)).toEqual([keys[0]]);
    expect(parse(`# newest first\n${one}\r\n\n${two}\n`)).toEqual(keys);
    const written: SealingKeys = [newSealingKey(), newSealingKey(), makeSealingKey(randomBytes(48))];
    expect(parse(sealingKeysText(written))).toEqual(written);
  });

  const key = hex();
  test.each([
    ["is empty", "", "there is no sealing key in it"],
    ["holds notes alone", "# none\n", "there is no sealing key in it"],
    ["holds a key that is short", hex().slice(2), "fewer than 32 bytes"],
    ["holds half a byte", `${hex()}a`, "not hex digits"],
    ["holds a text of a person", "correct horse battery staple, four words and more", "not hex digits"],
    ["holds a key twice", `${key}\n${key}\n`, "twice"],
    ["holds too many keys", Array.from({ length: 17 }, hex).join("\n"), "more than 16"],
    ["holds zeros", "0".repeat(64), "not random"],
    ["is 32 zero bytes", "\0".repeat(32), "not random"],
    ["is 31 bytes", "\0abcdefghijklmnopqrstuvwxyz1234", "fewer than 32 bytes"],
  ])("a file of sealing keys that %s is refused without a word of it", (_what, text, reason) => {
    expect(() => parse(text)).toThrow(reason);
    expect(() => parse(text)).not.toThrow(/[0-9a-f]{16}|horse/);
  });

  test("a file of sealing keys is in force after a change without a restart, and keeps the last good keys while it is unusable", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-sealing-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "sealing-key");
    const faults: (string | undefined)[] = [];
    const onReload = (fault: string | undefined) => faults.push(fault);
    const follow = () => FollowedSealing.open({ file, clock: systemClock, onReload, onUnknownKey() {} });
    const [one, two] = [newSealingKey(), newSealingKey()];
    await expect(follow()).rejects.toThrow(`${file} is not there`);
    writeFileSync(file, sealingKeysText([one]), { mode: 0o644 });
    await expect(follow()).rejects.toThrow("its mode should be 0600");
    chmodSync(file, 0o600);
    const followed = await follow();
    onTestFinished(() => followed.close());
    const ids = () => followed.sealing.keyIds.join();
    expect(ids()).toBe(one.id);
    await writePrivateFile(file, sealingKeysText([two, one]));
    await until(() => ids() === `${two.id},${one.id}`, "the new key seals");
    await writePrivateFile(file, "nothing\n");
    await until(() => faults.length === 2, "the fault is reported");
    expect(faults).toEqual([undefined, expect.stringContaining("not hex digits")]);
    expect(ids()).toBe(`${two.id},${one.id}`);
    await writePrivateFile(file, sealingKeysText([two]));
    await until(() => ids() === two.id, "the mended file is in force");
    expect(faults.at(-1)).toBeUndefined();
    chmodSync(file, 0o644);
    await until(() => faults.length === 4, "the new mode is reported");
    expect(ids()).toBe(two.id);
  });
});
