import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { generateKey, generateKeyId, KEY_PATTERN, parseKey } from "../../../../gateway/keys/key-format.ts";

/**
 * Made from zero bytes, with a checksum computed by another program: the form and the checksum must never change,
 * because keys are in use.
 */
const ZERO_KEY = "svc_live_000000000000_0000000000000000000000000000000000000000000_26TtYu";

const zeros = (size: number) => Buffer.alloc(size);

describe("generateKey", () => {
  test("makes a key that parses back to its public parts", () => {
    const id = generateKeyId(randomBytes);
    const { key } = generateKey("test", id, randomBytes);
    expect(parseKey(key)).toEqual({ env: "test", id });
    expect(key).toMatch(new RegExp(`^${KEY_PATTERN}$`));
  });

  test("keeps the form of keys that were issued before", () => {
    const id = generateKeyId(zeros);
    expect(generateKey("live", id, zeros).key).toBe(ZERO_KEY);
  });
});

describe("parseKey refuses", () => {
  test.each([
    ["nothing", ""],
    ["another prefix", ZERO_KEY.replace("svc", "sk")],
    ["another environment", ZERO_KEY.replace("live", "prod")],
    ["a changed id", ZERO_KEY.replace("_000000000000_", "_000000000001_")],
    ["a changed environment", ZERO_KEY.replace("live", "test")],
    ["a changed secret", `${ZERO_KEY.slice(0, -8)}1${ZERO_KEY.slice(-7)}`],
    ["a changed check sum", `${ZERO_KEY.slice(0, -1)}v`],
    ["a cut key", ZERO_KEY.slice(0, -1)],
    ["a key with more behind it", `${ZERO_KEY}0`],
    ["a line break behind the key", `${ZERO_KEY}\n`],
    ["a blank before the key", ` ${ZERO_KEY}`],
    ["a letter that is not ASCII", ZERO_KEY.replace("_0000", "_000é")],
    ["a megabyte", "svc_live_".repeat(100_000)],
  ])("%s", (_, text) => {
    expect(parseKey(text)).toBeUndefined();
  });
});
