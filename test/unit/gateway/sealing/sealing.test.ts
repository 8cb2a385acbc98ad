import { describe, expect, test } from "vitest";
import { Sealing, type SealScope } from "../../../../gateway/sealing/sealing.ts";
import { newSealingKey } from "../../../../gateway/sealing/sealing-key.ts";

const SCOPE: SealScope = { tenant: "t", model: "svc-qwen", format: "responses" };
const TEXT = "Because the sky is blue.";

describe("a sealed text", () => {
  test("opens in its scope, and hides its content", () => {
    const sealing = new Sealing();
    const sealed = sealing.for(SCOPE).seal(TEXT);
    expect(Buffer.from(sealed, "base64").toString("latin1")).not.toContain("sky");
    expect(sealing.for({ ...SCOPE }).open(sealed)).toBe(TEXT);
    expect(sealing.for(SCOPE).seal(TEXT)).not.toBe(sealed);
    expect(sealing.openings).toEqual({ opened: 1, unknown_key: 0, refused: 0 });
  });

  test.each([
    ["another tenant", { tenant: "u" }],
    ["another model", { model: "svc-glm53" }],
    ["another format, whose field holds something else", { format: "messages" }],
  ])("opens for no %s", (_what, other) => {
    const sealing = new Sealing();
    const sealed = sealing.for(SCOPE).seal(TEXT);
    expect(sealing.for({ ...SCOPE, ...other }).open(sealed)).toBeUndefined();
    expect(sealing.openings).toMatchObject({ opened: 0, refused: 1 });
  });

  test("is reasoning or a summary and never the other, and a summary opens for any model", () => {
    const sealing = new Sealing();
    const sealer = sealing.for(SCOPE);
    const summary = sealer.seal(TEXT, "summary");
    expect(sealer.open(sealer.seal(TEXT), "summary")).toBeUndefined();
    expect(sealer.open(summary)).toBeUndefined();
    expect(sealing.for({ ...SCOPE, model: "svc-glm53" }).open(summary, "summary")).toBe(TEXT);
    expect(sealing.for({ ...SCOPE, tenant: "u" }).open(summary, "summary")).toBeUndefined();
    expect(sealing.for({ ...SCOPE, format: "messages" }).open(summary, "summary")).toBeUndefined();
  });

  test("does not open with one bit of it changed, wherever that is", () => {
    const sealing = new Sealing();
    const sealer = sealing.for(SCOPE);
    const bytes = Buffer.from(sealer.seal(TEXT), "base64");
    for (const [at, byte] of bytes.entries()) {
      const changed = Buffer.from(bytes);
      changed[at] = byte ^ 1;
      expect(sealer.open(changed.toString("base64"))).toBeUndefined();
    }
    expect(sealing.openings.opened).toBe(0);
    // A changed key id is unknown.
    expect(sealing.openings.unknown_key).toBe(4);
  });

  test.each(["", "AA==", "not base64 at all", "x".repeat(100_000), Buffer.alloc(64, 2).toString("base64")])(
    "is not %.20s",
    (foreign) => {
      expect(new Sealing().for(SCOPE).open(foreign)).toBeUndefined();
    },
  );

  test("with its key taken for another one opens nothing: the id is authenticated", () => {
    const [one, two] = [newSealingKey(), newSealingKey()];
    const sealing = new Sealing([one, two]);
    const bytes = Buffer.from(sealing.for(SCOPE).seal(TEXT), "base64");
    bytes.write(two.id, 1, "hex");
    expect(sealing.for(SCOPE).open(bytes.toString("base64"))).toBeUndefined();
    expect(sealing.openings.refused).toBe(1);
  });
});

describe("a list of keys", () => {
  const [older, newer] = [newSealingKey(), newSealingKey()];

  test("seals with its first and opens with all, as long as they are there", () => {
    const sealing = new Sealing([older]);
    const before = sealing.for(SCOPE).seal(TEXT);
    sealing.use([newer, older]);
    expect(sealing.keyIds).toEqual([newer.id, older.id]);
    const after = sealing.for(SCOPE).seal(TEXT);
    expect([before, after].map((sealed) => sealing.for(SCOPE).open(sealed))).toEqual([TEXT, TEXT]);
    expect(new Sealing([newer]).for(SCOPE).open(after)).toBe(TEXT);
    sealing.use([newer]);
    expect(sealing.for(SCOPE).open(before)).toBeUndefined();
  });

  test("holds from the next text on for a request that has begun", () => {
    const sealing = new Sealing([older]);
    const sealer = sealing.for(SCOPE);
    sealer.seal(TEXT);
    sealing.use([newer, older]);
    expect(new Sealing([newer]).for(SCOPE).open(sealer.seal(TEXT))).toBe(TEXT);
  });

  test("without the key of a text reports the id of the missing key", () => {
    const lacking: string[] = [];
    const sealing = new Sealing([newer], (id) => lacking.push(id));
    expect(sealing.for(SCOPE).open(new Sealing([older]).for(SCOPE).seal(TEXT))).toBeUndefined();
    expect(lacking).toEqual([older.id]);
    expect(sealing.openings.unknown_key).toBe(1);
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
