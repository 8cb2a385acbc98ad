import type { BucketRule } from "./token-bucket.ts";

/** What a dimension counts by: a bucket that refills evenly, or a total per day in UTC. */
export type LimitRule =
  | ({ readonly kind: "bucket" } & BucketRule)
  /** `total` may be used up each day; a use belongs to the day in which it is settled. */
  | { readonly kind: "day"; readonly total: number };

/** One limit of one key, and what a request wants of it. */
export type ChargeItem = {
  /** Names the count among those of the key. */
  readonly name: string;
  readonly rule: LimitRule;
  /** Taken when all items pass; 0 asks only that nothing is owed. undefined: only looked at, and always passes. */
  readonly cost: number | undefined;
};

/** How one limit stands. */
export type Reading = {
  /** What may still be used now; below 0 when more was used than was there. */
  readonly remaining: number;
  /** Whole milliseconds until all of it is there again. */
  readonly resetMs: number;
  /** Whole milliseconds until the cost that was asked for passes; 0 when it passed. */
  readonly waitMs: number;
};

export type Charged = {
  /** Every item passed and was taken; else nothing was. */
  readonly ok: boolean;
  /** In the order of the items, after the charge where it passed. */
  readonly readings: readonly Reading[];
};

/** A place among those that may run at one time. */
export type Place = {
  /** Gives the place back. Further calls do nothing. */
  release(): void;
};

/**
 * Where the counts of all keys are kept; several gateways may share one. Rules come with every charge, so a change of a
 * key's limits holds from its next request on. No method throws or rejects: a store that loses its network counts by
 * itself for that time.
 */
export interface LimitStore {
  /** Takes all items or none. */
  charge(keyId: string, items: readonly ChargeItem[]): Promise<Charged>;
  /**
   * Takes `amount` from a count that was charged before, whatever is left; a negative one gives back. Does nothing for a
   * name that was never charged.
   */
  settle(keyId: string, name: string, amount: number): void;
  /** A place, or undefined when `limit` of them are taken. The holder releases it, whatever happens. */
  takePlace(keyId: string, name: string, limit: number): Promise<Place | undefined>;
}
