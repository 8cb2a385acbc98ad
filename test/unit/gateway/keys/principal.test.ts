import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createKey } from "../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { EMPTY_KEY_SET, type KeyRecord, type KeySet } from "../../../../gateway/keys/key-record.ts";
import { makePrincipal, mayUse } from "../../../../gateway/keys/principal.ts";
import { keyRequest } from "../../../support/gateway/key-request.ts";

const pepper = makePepper(Buffer.alloc(32, 1));

function records(owners: readonly (string | null)[], models: readonly string[] | "all" = ["svc-qwen"]) {
  let set: KeySet = EMPTY_KEY_SET;
  const made: KeyRecord[] = [];
  for (const owner of owners) {
    const request = keyRequest({ owner, models });
    const result = createKey(set, request, { pepper, nowMs: 0, random: randomBytes });
    set = result.set;
    made.push(result.value.record);
  }
  return made;
}

test("keys of one owner are one tenant with one salt; all others are apart", () => {
  const made = records(["a", "a", "b", null, null]).map((record) => makePrincipal(record, pepper));
  const tenants = made.map(({ tenant }) => tenant);
  const salts = made.map(({ cacheSalt }) => cacheSalt);
  const routingKeys = made.map(({ routingKey }) => routingKey.toString("hex"));
  for (const values of [tenants, salts, routingKeys]) {
    expect(values[0]).toBe(values[1]);
    expect(new Set(values).size).toBe(4);
  }
});

test("an owner named like a key is not taken for that key", () => {
  const [key] = records([null]);
  if (key === undefined) throw new Error("no record");
  const [owned] = records([key.id]);
  if (owned === undefined) throw new Error("no record");
  expect(makePrincipal(owned, pepper).tenant).not.toBe(makePrincipal(key, pepper).tenant);
});

test("a new salt in the record separates the key from its cached prefixes", () => {
  const [record] = records([null]);
  if (record === undefined) throw new Error("no record");
  const salted = { ...record, cacheSalt: "A".repeat(22) };
  expect(makePrincipal(salted, pepper).cacheSalt).not.toBe(makePrincipal(record, pepper).cacheSalt);
  expect(makePrincipal(salted, pepper).tenant).toBe(makePrincipal(record, pepper).tenant);
  expect(makePrincipal(salted, pepper).routingKey).not.toEqual(makePrincipal(record, pepper).routingKey);
});

describe("mayUse", () => {
  test.each([
    ["a model of the list", ["svc-qwen"], "svc-qwen", true],
    ["another model", ["svc-qwen"], "svc-glm53", false],
    ["every model", "all", "svc-glm53", true],
    ["the star of the record, which is no model", ["svc-qwen"], "*", false],
  ] as const)("%s", (_, models, model, expected) => {
    const [record] = records([null], models);
    if (record === undefined) throw new Error("no record");
    expect(mayUse(makePrincipal(record, pepper), model)).toBe(expected);
  });
});
