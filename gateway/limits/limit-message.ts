import type { Charged, ChargeItem } from "./limit-store.ts";

/** The field by which messages about limits are told from others on the same process channel. */
export const LIMITS_TOPIC = "limits";

/**
 * What a gateway worker asks the process that keeps the counts of all workers. The worker chooses each `id` and never
 * uses one twice; `release` names the `id` of the `place` request that got the place.
 */
export type LimitRequest =
  | { readonly limits: "charge"; readonly id: number; readonly keyId: string; readonly items: readonly ChargeItem[] }
  | { readonly limits: "settle"; readonly keyId: string; readonly name: string; readonly amount: number }
  | {
      readonly limits: "place";
      /** The id of the request, by which it is answered and its place is given back. */
      readonly id: number;
      /** The public id of the key. */
      readonly keyId: string;
      /** The name of the limit on places in the store. */
      readonly name: string;
      /** The number of places that the key's record allows. */
      readonly limit: number;
    }
  | { readonly limits: "release"; readonly id: number };

/** The answer to `charge` and to `place` with the `id` of the request. The other requests have no answer. */
export type LimitReply =
  | { readonly limits: "charged"; readonly id: number; readonly charged: Charged }
  | { readonly limits: "placed"; readonly id: number; readonly granted: boolean };
