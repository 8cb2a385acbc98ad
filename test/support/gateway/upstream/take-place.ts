import type { LimitStore, Place } from "../../../../gateway/limits/limit-store.ts";

/** Takes a place without a charge; undefined if none is free. */
export async function takePlace(
  store: LimitStore,
  keyId: string,
  name: string,
  limit: number,
): Promise<Place | undefined> {
  return (await store.charge(keyId, [], { name, limit })).place;
}
