import { randomBytes } from "node:crypto";
import { createKey, type KeyRequest } from "../../../gateway/keys/key-admin.ts";
import { openRedisKeyVault } from "../../../gateway/keys/redis/redis-key-vault.ts";
import { stateSchema } from "../../../gateway/state/state-settings.ts";

/** The properties of the bench's keys: limits are counted in the store, and refuse nothing. */
const REQUEST: Omit<KeyRequest, "name"> = {
  owner: null,
  env: "live",
  models: "all",
  limits: { rpm: 100_000, itpm: 1_000_000_000, otpm: 1_000_000_000, concurrency: 1_000 },
  quota: { tokensPerDay: 1_000_000_000 },
  priority: "DEFAULT",
  weight: 1,
  expiresAtMs: null,
};

/** Opens the keys in the store at `address`, as the command line does. */
function vaultAt(address: string, pepperFile: string) {
  const { redis } = stateSchema.parse({ redis: { url: `redis://${address}` } });
  if (!redis) throw new Error("the store has no settings");
  return openRedisKeyVault(redis, pepperFile, () => {});
}

/**
 * Adds `count` keys to the store at `address`. Resolves to the texts of the first `shown` of them, and to the duration
 * in milliseconds.
 */
export async function storeKeys(
  address: string,
  pepperFile: string,
  { count, shown }: { readonly count: number; readonly shown: number },
): Promise<{ readonly keys: readonly string[]; readonly tookMs: number }> {
  const vault = await vaultAt(address, pepperFile);
  const beganMs = performance.now();
  const keys = await vault.update(true, (set, pepper) => {
    const minting = { pepper, nowMs: Date.now(), random: randomBytes };
    const made = Array.from({ length: count }, (_, at) => {
      // An empty set: searching for a free id among all others would take quadratic time.
      const request = { ...REQUEST, name: `key ${at}` };
      return createKey({ ...set, keys: [] }, request, minting).value;
    });
    return {
      set: { ...set, revision: set.revision + 1, keys: [...set.keys, ...made.map(({ record }) => record)] },
      value: made.slice(0, shown).map(({ key }) => key),
    };
  });
  vault.close();
  return { keys, tookMs: performance.now() - beganMs };
}
