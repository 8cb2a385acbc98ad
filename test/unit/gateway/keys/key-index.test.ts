import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createKey, type KeyRequest } from "../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { generateKey, generateKeyId } from "../../../../gateway/keys/key-format.ts";
import { indexKeys } from "../../../../gateway/keys/key-index.ts";
import { EMPTY_KEY_SET, type KeySet } from "../../../../gateway/keys/key-record.ts";

const pepper = makePepper(Buffer.alloc(32, 1));
const minting = { pepper, nowMs: 0, random: randomBytes };

function add(set: KeySet, changes: Partial<KeyRequest> = {}) {
  const request: KeyRequest = {
    name: "ci",
    owner: null,
    env: "live",
    models: ["svc-qwen"],
    limits: {},
    quota: {},
    priority: "DEFAULT",
    weight: 1,
    expiresAtMs: null,
    ...changes,
  };
  return createKey(set, request, minting);
}

describe("look", () => {
  test("finds each key of a set", () => {
    const first = add(EMPTY_KEY_SET);
    const second = add(first.set, { models: "all" });
    const index = indexKeys(second.set, pepper, "live");
    expect(index.look(first.value.key, 0)).toMatchObject({ principal: { keyId: first.value.record.id } });
    expect(index.look(second.value.key, 0)).toMatchObject({ principal: { models: "all" } });
  });

  test("refuses an unknown id and a wrong secret of a valid id alike", () => {
    const { set, value } = add(EMPTY_KEY_SET);
    const index = indexKeys(set, pepper, "live");
    const wrongSecret = generateKey("live", value.record.id, randomBytes).key;
    const unknownId = generateKey("live", generateKeyId(randomBytes), randomBytes).key;
    expect(index.look(wrongSecret, 0)).toEqual({ refused: "unknown" });
    expect(index.look(unknownId, 0)).toEqual(index.look(wrongSecret, 0));
  });

  test("refuses the key under another pepper", () => {
    const { set, value } = add(EMPTY_KEY_SET);
    const index = indexKeys(set, makePepper(Buffer.alloc(32, 2)), "live");
    expect(index.look(value.key, 0)).toEqual({ refused: "unknown" });
  });

  test("accepts keys of its own environment only", () => {
    const { set, value } = add(EMPTY_KEY_SET, { env: "test" });
    expect(indexKeys(set, pepper, "live").look(value.key, 0)).toEqual({ refused: "unknown" });
    expect(indexKeys(set, pepper, "test").look(value.key, 0)).toHaveProperty("principal");
  });

  test("refuses everything while there are no keys", () => {
    const index = indexKeys(EMPTY_KEY_SET, undefined, "live");
    const { key } = generateKey("live", generateKeyId(randomBytes), randomBytes);
    expect(index.look(key, 0)).toEqual({ refused: "unknown" });
    expect(index.look("Bearer nonsense", 0)).toEqual({ refused: "malformed" });
  });
});
