import type { LimitStore } from "../../../../gateway/limits/limit-store.ts";

/** Takes a permit without a charge; resolves to its release, or to undefined if none is free. */
export async function takePermit(store: LimitStore, keyId: string, name: string, limit: number) {
  const { ok } = await store.charge(keyId, [], { name, limit });
  return ok ? { release: () => store.release(keyId, [name]) } : undefined;
}
