import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  createKey,
  disableKey,
  findKey,
  KeyAdminError,
  type KeyRequest,
  listKeys,
  revokeKey,
  rotateKey,
  stateOf,
  summarize,
} from "../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { indexKeys } from "../../../../gateway/keys/key-index.ts";
import { EMPTY_KEY_SET, type KeySet, keySetSchema } from "../../../../gateway/keys/key-record.ts";
import { keyRequest } from "../../../support/gateway/key-request.ts";

const pepper = makePepper(Buffer.alloc(32, 1));
const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const HOUR = 3_600_000;

const plain = keyRequest({ models: ["svc-qwen"], limits: { rpm: 60 } });

const at = (nowMs: number) => ({ pepper, nowMs, random: randomBytes });
const outcome = (set: KeySet, key: string, nowMs: number) => {
  const found = indexKeys(set, pepper, "live").look(key, nowMs);
  return "principal" in found ? "accepted" : found.refused;
};

function one(changes: Partial<KeyRequest> = {}) {
  const { set, value } = createKey(EMPTY_KEY_SET, { ...plain, ...changes }, at(NOW));
  return { set, id: value.record.id, key: value.key };
}

describe("createKey", () => {
  test("makes a record that the schema takes and that its key opens", () => {
    const { set, key } = one();
    expect(keySetSchema.parse(set)).toEqual(set);
    expect(outcome(set, key, NOW)).toBe("accepted");
  });

  test("draws another id when one is taken", () => {
    const first = createKey(EMPTY_KEY_SET, plain, { ...at(NOW), random: (size) => Buffer.alloc(size) });
    let calls = 0;
    const random = (size: number) => Buffer.alloc(size, calls++ === 0 ? 0 : 9);
    const second = createKey(first.set, plain, { ...at(NOW), random });
    expect(new Set(second.set.keys.map(({ id }) => id)).size).toBe(2);
  });

  test("gives keys of one owner one salt, and other keys their own", () => {
    let set = EMPTY_KEY_SET;
    for (const owner of ["a", "b", "a", null, null]) set = createKey(set, { ...plain, owner }, at(NOW)).set;
    const [a1, b, a2, c, d] = set.keys.map(({ cacheSalt }) => cacheSalt);
    expect(a1).toBe(a2);
    expect(new Set([a1, b, c, d]).size).toBe(4);
  });

  test("ends the key when it expires", () => {
    const { set, key } = one({ expiresAtMs: NOW + HOUR });
    expect(outcome(set, key, NOW + HOUR - 1)).toBe("accepted");
    expect(outcome(set, key, NOW + HOUR)).toBe("expired");
  });
});

describe("rotateKey", () => {
  test("does not cut an overlap that it promised, unless asked to end all", () => {
    const { set, id, key } = one();
    const first = rotateKey(set, id, HOUR, at(NOW));
    expect(() => rotateKey(first.set, id, HOUR, at(NOW + 1))).toThrow(/until 2026-03-01T01:00:00.000Z/);
    const ended = rotateKey(first.set, id, 0, at(NOW + 1));
    expect(outcome(ended.set, key, NOW + 1)).toBe("unknown");
    expect(outcome(ended.set, first.value.key, NOW + 1)).toBe("unknown");
    expect(outcome(ended.set, ended.value.key, NOW + 1)).toBe("accepted");
  });

  test("is refused for a key that has ended", () => {
    const { set, id } = one({ expiresAtMs: NOW + 1 });
    expect(() => rotateKey(set, id, 0, at(NOW + 1))).toThrow(KeyAdminError);
    expect(() => rotateKey(revokeKey(set, id, NOW).set, id, 0, at(NOW))).toThrow(/revoked/);
  });
});

describe("status", () => {
  test("a change counts up the record, no change writes nothing", () => {
    const { set, id } = one();
    const disabled = disableKey(set, id, NOW + 5);
    expect(disabled.value).toMatchObject({ revision: 2, updated: "2026-03-01T00:00:00.005Z" });
    expect(disableKey(disabled.set, id, NOW + 6).set).toBe(disabled.set);
  });

  test("expiry shows only where nothing else keeps the key out", () => {
    const { set, id } = one({ expiresAtMs: NOW });
    expect(stateOf(findKey(set, id), NOW)).toBe("expired");
    expect(stateOf(findKey(set, id), NOW - 1)).toBe("active");
    expect(stateOf(findKey(revokeKey(set, id, NOW).set, id), NOW)).toBe("revoked");
  });
});

test("the summary of a key has neither digest nor salt", () => {
  const { set, id, key } = one({ models: "all" });
  const record = findKey(set, id);
  const text = JSON.stringify([summarize(record, NOW), listKeys(set, NOW)]);
  expect(text).not.toContain(record.secrets[0]?.hash);
  expect(text).not.toContain(record.cacheSalt);
  expect(listKeys(set, NOW)).toMatchObject([{ id, models: ["*"], secrets: [{ last4: key.slice(-4) }] }]);
});
