import type { Charged, ChargeItem, PlaceItem } from "./limit-store.ts";

/** The field by which messages about limits are told from others on the same process channel. */
export const LIMITS_TOPIC = "limits";

/**
 * What a gateway worker asks the process that keeps the counts of all workers. The worker chooses each `id` and never
 * uses one twice; `release` names the `id` of the `charge` that got the places.
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
      /** The places that are wanted. */
      readonly places: readonly PlaceItem[];
    }
  | { readonly limits: "settle"; readonly keyId: string; readonly name: string; readonly amount: number }
  | { readonly limits: "release"; readonly id: number };

/** The answer to `charge`, the only request that has one. */
export type LimitReply = {
  /** The mark of a message about limits. */
  readonly limits: "charged";
  /** The id of the request. */
  readonly id: number;
  /** The outcome, without the places, which cannot be sent. */
  readonly charged: Omit<Charged, "place">;
  /** Whether places were taken, which the worker gives back by `release`. */
  readonly placed: boolean;
};
