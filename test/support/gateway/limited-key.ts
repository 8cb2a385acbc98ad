import { FileKeyVault } from "../../../gateway/keys/file-key-vault.ts";
import { idOfKey } from "../../../gateway/keys/key-format.ts";
import type { KeyLimits, KeyQuota } from "../../../gateway/keys/key-record.ts";
import { becomes } from "../becomes.ts";
import type { RunningGateway } from "./start-gateway.ts";

export type Auth = { readonly authorization: string };

/** Makes a key with these limits; resolves when the gateway applies them. */
export async function keyWith(gateway: RunningGateway, limits: KeyLimits, quota: KeyQuota = {}): Promise<Auth> {
  const key = await gateway.createKey("--name", "limited", "--models", "*");
  await setLimits(gateway, key, limits, quota);
  return { authorization: `Bearer ${key}` };
}

/** Replaces the limits of a key; resolves when the gateway applies them. */
export async function setLimits(gateway: RunningGateway, key: string, limits: KeyLimits, quota: KeyQuota = {}) {
  const id = idOfKey(key) ?? "";
  const revision = await new FileKeyVault(gateway.keyFile).update(false, [], (set) => {
    const next = set.revision + 1;
    const keys = set.keys.map((one) => (one.id === id ? { ...one, limits, quota, revision: next } : one));
    return { set: { ...set, keys }, value: next };
  });
  await becomes(async () => gateway.keys.byId(id)?.revision === revision, "the key is known");
}

export function limitHeaders(response: Response): Record<string, string> {
  return Object.fromEntries([...response.headers].filter(([name]) => name.includes("ratelimit")));
}
