import type { Charged, ChargeItem, PlaceItem } from "./limit-store.ts";

/** The field by which messages about limits are told from others on the same process channel. */
export const LIMITS_TOPIC = "limits";

/**
 * What a gateway worker asks the process that keeps the counts of all workers. The worker chooses each `id` and never
 * uses one twice; `release` names the `id` of the `charge` that got the place.
 */
export type LimitRequest =
  | {
      readonly limits: "charge";
      /** The id of the request, by which it is answered and its place is given back. */
      readonly id: number;
      /** The public id of the key. */
      readonly keyId: string;
      /** The limits of the key, and what each is charged. */
      readonly items: readonly ChargeItem[];
      /** The place that is wanted; absent where none is. */
      readonly place?: PlaceItem | undefined;
    }
  | { readonly limits: "settle"; readonly keyId: string; readonly name: string; readonly amount: number }
  | { readonly limits: "release"; readonly id: number };

/** The answer to `charge` with the `id` of the request; `placed` says whether it got a place. Nothing else is answered. */
export type LimitReply = {
  readonly limits: "charged";
  readonly id: number;
  readonly charged: Omit<Charged, "place">;
  readonly placed: boolean;
};
