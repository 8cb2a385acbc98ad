import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type LimitChange, setLimits } from "../../../../../gateway/keys/cli/change-commands.ts";
import { changeFields, createKey, revokeKey } from "../../../../../gateway/keys/key-admin.ts";
import { makePepper } from "../../../../../gateway/keys/key-digest.ts";
import { EMPTY_KEY_SET, type KeyLimits, type KeyQuota } from "../../../../../gateway/keys/key-record.ts";

const NOW = Date.parse("2026-03-01T00:00:00.000Z");
const NOTHING: LimitChange = { limits: {}, quota: {}, clear: new Set() };

function keyWith(limits: KeyLimits, quota: KeyQuota = {}) {
  const pepper = makePepper(randomBytes(32));
  const fields = { name: "ci", owner: null, env: "live", models: "all", priority: "DEFAULT", weight: 1 } as const;
  const request = { ...fields, limits, quota, expiresAtMs: null };
  const { set, value } = createKey(EMPTY_KEY_SET, request, { pepper, nowMs: NOW, random: randomBytes });
  return { set, id: value.record.id };
}

describe("limits", () => {
  test.each<readonly [what: string, change: Partial<LimitChange>, limits: KeyLimits, quota: KeyQuota]>([
    [
      "sets what is named",
      { limits: { otpm: 5 } },
      { rpm: 1, queued: 2, otpm: 5, perModel: { "svc-qwen": { rpm: 1 } } },
      { tokensPerDay: 9 },
    ],
    [
      "leaves alone what is undefined",
      { limits: { rpm: undefined, queued: 7 } },
      { rpm: 1, queued: 7, perModel: { "svc-qwen": { rpm: 1 } } },
      { tokensPerDay: 9 },
    ],
    [
      "takes away what is named",
      { clear: new Set(["rpm", "tokensPerDay"]) },
      { queued: 2, perModel: { "svc-qwen": { rpm: 1 } } },
      {},
    ],
    ["takes away before it sets", { clear: "all", limits: { rpm: 8 } }, { rpm: 8 }, {}],
    ["takes away one model's", { clear: new Set(["svc-qwen"]) }, { rpm: 1, queued: 2 }, { tokensPerDay: 9 }],
    ["takes away all models'", { clear: new Set(["perModel"]) }, { rpm: 1, queued: 2 }, { tokensPerDay: 9 }],
    [
      "adds a model's",
      { limits: { perModel: { "svc-glm53": { otpm: 3 } } } },
      { rpm: 1, queued: 2, perModel: { "svc-qwen": { rpm: 1 }, "svc-glm53": { otpm: 3 } } },
      { tokensPerDay: 9 },
    ],
  ])("%s", (_what, change, limits, quota) => {
    const { set, id } = keyWith({ rpm: 1, queued: 2, perModel: { "svc-qwen": { rpm: 1 } } }, { tokensPerDay: 9 });
    const { value } = setLimits(set, id, { ...NOTHING, ...change }, NOW + 1);
    expect(value).toMatchObject({ revision: 2, updated: "2026-03-01T00:00:00.001Z" });
    expect([value.limits, value.quota]).toEqual([limits, quota]);
    // No undefined value that a store would have to omit.
    expect(JSON.parse(JSON.stringify(value))).toEqual(value);
  });

  test("of a revoked or an unknown key stay", () => {
    const { set, id } = keyWith({});
    const revoked = revokeKey(set, id, NOW).set;
    expect(() => setLimits(revoked, id, NOTHING, NOW)).toThrow("the key is revoked");
    expect(() => changeFields(revoked, id, NOW, () => ({}))).toThrow("the key is revoked");
    expect(() => setLimits(set, "nobody", NOTHING, NOW)).toThrow("no key has this id");
  });
});
