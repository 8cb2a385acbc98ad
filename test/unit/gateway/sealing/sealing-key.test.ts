import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  makeSealingKey,
  newSealingKey,
  parseSealingKeys,
  type SealingKeys,
  sealingKeysText,
} from "../../../../gateway/sealing/sealing-key.ts";

const parse = (text: string) => parseSealingKeys(Buffer.from(text));
const ids = (keys: SealingKeys) => keys.map(({ id }) => id);
const hex = () => randomBytes(32).toString("hex");

describe("a file of sealing keys", () => {
  test.each([32, 48, 64])("may be the bytes of one key, %i of them", (length) => {
    const bytes = Buffer.concat([randomBytes(length - 1), Buffer.of(0)]);
    expect(parseSealingKeys(bytes)).toEqual([makeSealingKey(bytes)]);
  });

  test("may be hex digits, of one key or of several, with notes between", () => {
    const [one, two] = [hex(), hex()];
    const keys = [one, two].map((text) => makeSealingKey(Buffer.from(text, "hex")));
    expect(parse(one)).toEqual([keys[0]]);
    expect(parse(`${one.toUpperCase()}\n`)).toEqual([keys[0]]);
    expect(parse(`# newest first\n${one}\r\n\n${two}\n`)).toEqual(keys);
  });

  test("reads back as it was written", () => {
    const keys: SealingKeys = [newSealingKey(), newSealingKey(), makeSealingKey(randomBytes(48))];
    expect(parse(sealingKeysText(keys))).toEqual(keys);
    expect(new Set(ids(keys)).size).toBe(3);
  });

  const key = hex();
  test.each([
    ["is empty", "", "there is no sealing key in it"],
    ["holds notes alone", "# none\n", "there is no sealing key in it"],
    ["holds a key that is short", hex().slice(2), "fewer than 32 bytes"],
    ["holds half a byte", `${hex()}a`, "not hex digits"],
    ["holds what somebody thought up", "correct horse battery staple, four words and more", "not hex digits"],
    ["holds a key twice", `${key}\n${key}\n`, "twice"],
    ["holds more keys than anybody needs", Array.from({ length: 17 }, hex).join("\n"), "more than 16"],
    ["holds zeros", "0".repeat(64), "not random"],
  ])("that %s is refused without a word of it", (_what, text, reason) => {
    expect(() => parse(text)).toThrow(reason);
    const quoted = /[0-9a-f]{16}|horse/;
    expect(() => parse(text)).not.toThrow(quoted);
  });

  test.each([
    ["32 zeros", Buffer.alloc(32)],
    ["31 random bytes", Buffer.concat([Buffer.of(0), randomBytes(30)])],
  ])("of %s is refused", (_what, bytes) => {
    expect(() => parseSealingKeys(bytes)).toThrow(/sealing key/);
  });
});
