import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { keyChanges } from "../../../../gateway/keys/audit-log.ts";
import { setLimits } from "../../../../gateway/keys/cli/change-commands.ts";
import {
  createKey,
  disableKey,
  enableKey,
  revokeKey,
  rotateKey,
  setAllowIps,
  setModels,
} from "../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../gateway/keys/key-digest.ts";
import { EMPTY_KEY_SET, type KeySet } from "../../../../gateway/keys/key-record.ts";

const minting = { pepper: makePepper(randomBytes(32)), nowMs: 0, random: randomBytes };
const fields = { name: "ci", owner: null, env: "live", models: "all", priority: "DEFAULT", weight: 1 } as const;
const request = { ...fields, limits: { rpm: 1, otpm: 2 }, quota: {}, expiresAtMs: null };
const { set, value } = createKey(EMPTY_KEY_SET, request, minting);
const { id } = value.record;
const disabled = disableKey(set, id, 1).set;
const limits = { limits: { rpm: 5, queued: 1 }, quota: { tokensPerDay: 3 }, clear: new Set(["otpm"]) };
const renamed = { ...set, keys: set.keys.map((record) => ({ ...record, name: "other", models: ["svc-qwen"] })) };

test.each<readonly [action: string, before: KeySet, after: KeySet, fields: readonly string[]]>([
  ["create", EMPTY_KEY_SET, set, []],
  ["remove", set, EMPTY_KEY_SET, []],
  ["disable", set, disabled, ["status"]],
  ["enable", disabled, enableKey(disabled, id, 2).set, ["status"]],
  ["revoke", set, revokeKey(set, id, 2).set, ["status"]],
  ["rotate", set, rotateKey(set, id, 5, minting).set, ["secrets"]],
  ["set-models", set, setModels(set, id, ["svc-qwen"], 3).set, ["models"]],
  ["set-ips", set, setAllowIps(set, id, ["10.0.0.0/8"], 3).set, ["allowIps"]],
  [
    "set-limits",
    set,
    setLimits(set, id, limits, 3).set,
    ["limits.rpm", "limits.otpm", "limits.queued", "quota.tokensPerDay"],
  ],
  ["change", set, renamed, ["name", "models"]],
])("%s is derived from the sets, by the names of its fields only", (action, before, after, names) => {
  expect(keyChanges(before, after)).toEqual([{ action, keyId: id, fields: names }]);
  expect(JSON.stringify(keyChanges(before, after))).not.toContain(value.record.secrets[0]?.hash);
});

test("equal sets have no changes", () => {
  expect(keyChanges(set, set)).toEqual([]);
});
