import { updateKeyFile } from "../../../gateway/keys/key-file.ts";
import { parseKey } from "../../../gateway/keys/key-format.ts";
import type { KeyLimits, KeyQuota } from "../../../gateway/keys/key-record.ts";
import { becomes } from "../becomes.ts";
import type { RunningGateway } from "./start-gateway.ts";

export type Auth = { readonly authorization: string };

/** Requests per minute that no test reaches. */
let marker = 1_000_000;

/** Writes the limits into the key's record, as an operator does. Resolves when the gateway applies them. */
export async function setLimits(
  gateway: RunningGateway,
  auth: Auth,
  limits: KeyLimits,
  quota: KeyQuota = {},
): Promise<void> {
  const id = parseKey(auth.authorization.slice("Bearer ".length))?.id;
  // A unique limit identifies the new record.
  marker += 1;
  const rpm = limits.rpm ?? marker;
  const signal = new AbortController().signal;
  await updateKeyFile(
    gateway.keyFile,
    false,
    (set) => {
      const keys = set.keys.map((key) =>
        key.id === id ? { ...key, limits: { ...limits, rpm }, quota, revision: key.revision + 1 } : key,
      );
      return { set: { ...set, revision: set.revision + 1, keys }, value: undefined };
    },
    signal,
  );
  await becomes(async () => {
    const response = await gateway.get("/v1/models", auth);
    await response.text();
    return response.headers.get("x-ratelimit-limit-requests") === String(rpm);
  }, "the key is known");
}

export async function keyWith(gateway: RunningGateway, limits: KeyLimits, quota: KeyQuota = {}): Promise<Auth> {
  const auth = { authorization: `Bearer ${await gateway.createKey("--name", "limited", "--models", "*")}` };
  await setLimits(gateway, auth, limits, quota);
  return auth;
}

export function limitHeaders(response: Response): Record<string, string> {
  return Object.fromEntries([...response.headers].filter(([name]) => name.includes("ratelimit")));
}
