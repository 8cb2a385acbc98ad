import { updateKeyFile } from "../../../gateway/keys/key-file.ts";
import { idOfKey } from "../../../gateway/keys/key-format.ts";
import type { KeyLimits, KeyQuota } from "../../../gateway/keys/key-record.ts";
import { becomes } from "../becomes.ts";
import type { RunningGateway } from "./start-gateway.ts";

export type Auth = { readonly authorization: string };

/** Makes a key with these limits; resolves when the gateway applies them. */
export async function keyWith(gateway: RunningGateway, limits: KeyLimits, quota: KeyQuota = {}): Promise<Auth> {
  const key = await gateway.createKey("--name", "limited", "--models", "*");
  const id = idOfKey(key) ?? "";
  await updateKeyFile(
    gateway.keyFile,
    false,
    (set) => {
      const keys = set.keys.map((one) => (one.id === id ? { ...one, limits, quota, revision: 2 } : one));
      return { set: { ...set, keys }, value: undefined };
    },
    new AbortController().signal,
  );
  await becomes(async () => gateway.keys.byId(id)?.revision === 2, "the key is known");
  return { authorization: `Bearer ${key}` };
}

export function limitHeaders(response: Response): Record<string, string> {
  return Object.fromEntries([...response.headers].filter(([name]) => name.includes("ratelimit")));
}
