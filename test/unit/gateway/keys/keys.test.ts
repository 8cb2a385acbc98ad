import { describe, expect, test } from "vitest";
import { AllowedNetworks, isNetwork } from "../../../../gateway/keys/allowed-networks.ts";
import {
  changeFields,
  createKey,
  findKey,
  type KeyRequest,
  rotateKey,
  setStatus,
  stateOf,
  summarize,
} from "../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { generateKey, generateKeyId, idOfKey, KEY_PATTERN } from "../../../../gateway/keys/key-format.ts";
import { indexKeys } from "../../../../gateway/keys/key-index.ts";
import { EMPTY_KEY_SET, type KeySet, keySetSchema } from "../../../../gateway/keys/key-record.ts";
import { makePrincipal, mayUse } from "../../../../gateway/keys/principal.ts";

const pepper = makePepper(Buffer.alloc(32, 1));
const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const HOUR = 3_600_000;

const outcome = (set: KeySet, key: string, nowMs: number) => {
  const found = indexKeys(set, pepper).look(key, nowMs);
  return "principal" in found ? "accepted" : found.refused;
};

function one(request: Partial<KeyRequest> = {}) {
  const { set, value } = createKey(EMPTY_KEY_SET, { name: "ci", ...request }, pepper, NOW);
  return { set, id: value.record.id, key: value.key, record: value.record };
}

describe("the life of a key", () => {
  test("a new record is valid and opens with its key until it expires", () => {
    const { set, key } = one({ limits: { rpm: 60 }, expiresAt: new Date(NOW + HOUR).toISOString() });
    expect(keySetSchema.parse(set)).toEqual(set);
    expect(outcome(set, key, NOW + HOUR - 1)).toBe("accepted");
    expect(outcome(set, key, NOW + HOUR)).toBe("expired");
  });

  test("a rotation does not cut a promised overlap, unless asked to end all secrets", () => {
    const { set, id, key } = one();
    const first = rotateKey(set, id, HOUR, pepper, NOW);
    expect(() => rotateKey(first.set, id, HOUR, pepper, NOW + 1)).toThrow(/until 2026-03-01T01:00:00.000Z/);
    for (const both of [key, first.value.key]) expect(outcome(first.set, both, NOW + HOUR - 1)).toBe("accepted");
    const ended = rotateKey(first.set, id, 0, pepper, NOW + 1);
    const secrets = [key, first.value.key, ended.value.key];
    expect(secrets.map((each) => outcome(ended.set, each, NOW + 1))).toEqual(["unknown", "unknown", "accepted"]);
  });

  test("a key that has ended is neither rotated nor changed, and the revocation hides its expiry", () => {
    const { set, id } = one({ expiresAt: new Date(NOW).toISOString() });
    expect(() => rotateKey(set, id, 0, pepper, NOW)).toThrow("the key is expired");
    expect([stateOf(findKey(set, id), NOW), stateOf(findKey(set, id), NOW - 1)]).toEqual(["expired", "active"]);
    const revoked = setStatus(set, [id], "revoked", NOW);
    expect(stateOf(findKey(revoked.set, id), NOW)).toBe("revoked");
    expect(() => rotateKey(revoked.set, id, 0, pepper, NOW)).toThrow("the key is revoked");
    expect(() => changeFields(revoked.set, id, NOW, () => ({ models: ["*"] }))).toThrow("cannot be undone");
  });

  test("a change increments the record's revision, and no change leaves the set as it is", () => {
    const { set, id } = one();
    const disabled = setStatus(set, [id], "disabled", NOW + 5);
    expect(disabled.value).toMatchObject([{ revision: 2, updated: "2026-03-01T00:00:00.005Z" }]);
    expect(setStatus(disabled.set, [id], "disabled", NOW + 6).set).toBe(disabled.set);
  });

  test("the summary has neither digest nor salt", () => {
    const { record, key } = one();
    const summary = summarize(record, NOW);
    expect(summary).toMatchObject({ models: ["*"], secrets: [{ last4: key.slice(-4) }] });
    expect(JSON.stringify(summary)).not.toContain(record.secrets[0]?.hash);
    expect(JSON.stringify(summary)).not.toContain(record.cacheSalt);
  });
});

describe("principals", () => {
  test("keys of one owner are one tenant with one salt; all others are apart", () => {
    let set = EMPTY_KEY_SET;
    for (const owner of ["a", "a", "b", null, null]) set = createKey(set, { name: "ci", owner }, pepper, NOW).set;
    const [, , , key] = set.keys;
    // An owner may be named like a key.
    set = createKey(set, { name: "ci", owner: key?.id ?? "" }, pepper, NOW).set;
    const made = set.keys.map((record) => makePrincipal(record, pepper));
    for (const values of [
      made.map(({ tenant }) => tenant),
      made.map(({ cacheSalt }) => cacheSalt),
      made.map(({ routingKey }) => routingKey.toString("hex")),
    ]) {
      expect(values[0]).toBe(values[1]);
      expect(new Set(values).size).toBe(5);
    }
  });

  test("a new salt separates a key from its cached prefixes, and another pepper from all of it", () => {
    const { record } = one();
    const [before, salted, peppered] = [
      makePrincipal(record, pepper),
      makePrincipal({ ...record, cacheSalt: "A".repeat(22) }, pepper),
      makePrincipal(record, makePepper(Buffer.alloc(32, 2))),
    ];
    expect(salted.tenant).toBe(before.tenant);
    expect(salted.cacheSalt).not.toBe(before.cacheSalt);
    expect(salted.routingKey).not.toEqual(before.routingKey);
    expect(peppered.tenant).not.toBe(before.tenant);
  });

  test.each([
    ["a model of the list", ["svc-qwen"], "svc-qwen", true],
    ["another model", ["svc-qwen"], "svc-glm53", false],
    ["every model", ["*"], "svc-glm53", true],
    ["the star of the record, which is no model", ["svc-qwen"], "*", false],
  ])("principals may use %s: %s, %s, %s", (_, models, model, expected) => {
    expect(mayUse(makePrincipal(one({ models }).record, pepper), model)).toBe(expected);
  });
});

/**
 * Made from zero bytes, with a checksum computed by another program: the form and the checksum must never change,
 * because keys are in use.
 */
const ZERO_KEY = "svc_live_000000000000_0000000000000000000000000000000000000000000_26TtYu";

test("the id is read from a new key, and from one that was issued before", () => {
  const id = generateKeyId();
  const key = generateKey(id);
  expect(key).toMatch(new RegExp(`^${KEY_PATTERN}$`));
  expect(idOfKey(key)).toBe(id);
  expect(idOfKey(ZERO_KEY)).toBe("000000000000");
});

test("a key of the kind test, of an earlier release, opens nothing", () => {
  const { set, key, record } = one();
  const table = indexKeys({ ...set, keys: [{ ...record, env: "test" }] }, pepper);
  expect(table.look(key, NOW)).toEqual({ refused: "unknown" });
  expect(table.inForce(record.id, NOW)).toBeUndefined();
});

test.each([
  ["nothing", ""],
  ["another prefix", ZERO_KEY.replace("svc", "sk")],
  ["another environment", ZERO_KEY.replace("live", "prod")],
  ["a changed id", ZERO_KEY.replace("_000000000000_", "_000000000001_")],
  ["a changed environment", ZERO_KEY.replace("live", "test")],
  ["a changed secret", `${ZERO_KEY.slice(0, -8)}1${ZERO_KEY.slice(-7)}`],
  ["a changed checksum", `${ZERO_KEY.slice(0, -1)}v`],
  ["a cut key", ZERO_KEY.slice(0, -1)],
  ["more behind the key", `${ZERO_KEY}0`],
  ["a line break behind the key", `${ZERO_KEY}\n`],
  ["a blank before the key", ` ${ZERO_KEY}`],
  ["a letter that is not ASCII", ZERO_KEY.replace("_0000", "_000é")],
  ["a megabyte", "svc_live_".repeat(100_000)],
])("%s is no key", (_, text) => expect(idOfKey(text)).toBeUndefined());

const allowed = new AllowedNetworks(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1", "0.0.0.0/32"]);

test.each([
  ["10.255.0.1", true],
  ["11.0.0.1", false],
  ["192.0.2.7", true],
  ["192.0.2.8", false],
  ["2001:db8:1::9", true],
  ["2001:db9::1", false],
  ["0:0:0:0:0:0:0:1", true],
  ["0.0.0.1", false],
  ["", false],
  ["localhost", false],
])("the address %j is allowed: %s", (address, expected) => expect(allowed.has(address)).toBe(expected));

test("networks of all addresses allow every address", () => {
  const everywhere = new AllowedNetworks(["0.0.0.0/0", "::/0"]);
  expect(["1.2.3.4", "2001::1"].every((address) => everywhere.has(address))).toBe(true);
});

test.each(["10.0.0.0/33", "::/129", "10.0.0", "fe80::1%eth0", "", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/08", "x/8"])(
  "%j is no network",
  (text) => expect(isNetwork(text)).toBe(false),
);
