import type { BucketRule } from "./token-bucket.ts";

/**
 * The rule by which a limit counts: a bucket that refills evenly, or a `total` that may be used up each day in UTC. A
 * use belongs to the day in which it is settled.
 */
export type LimitRule = ({ readonly kind: "bucket" } & BucketRule) | { readonly kind: "day"; readonly total: number };

/** One limit of one key, and the cost that a request wants to take from it. */
export type ChargeItem = {
  /** The name of the count, unique among those of the key. */
  readonly name: string;
  /** The rule by which the count counts, from the newest record of the key. */
  readonly rule: LimitRule;
  /**
   * The cost that is taken when all items pass. A cost of 0 asks only that nothing is owed; undefined only looks, and
   * always passes.
   */
  readonly cost: number | undefined;
};

/** The reading of how one limit stands. */
export type Reading = {
  /** The amount that may still be used now, in units of the limit; below 0 when more was used than was there. */
  readonly remaining: number;
  /** The whole milliseconds until all of the limit is there again. */
  readonly resetMs: number;
  /** The whole milliseconds until the cost that was asked for passes; 0 when it passed. */
  readonly waitMs: number;
};

/** The outcome of a charge. */
export type Charged = {
  /** Whether every item passed and was taken; otherwise none was. */
  readonly ok: boolean;
  /** The readings of how the limits stand, in the order of the items, after the charge where it passed. */
  readonly readings: readonly Reading[];
};

/** A place among the generations, or the token counts, that a key may have under way at one time. */
export type Place = {
  /** Gives the place back. Further calls do nothing. */
  release(): void;
};

/**
 * Keeps the counts of all keys; several gateways may share one store. Rules come with every charge, so a change of a
 * key's limits holds from its next request on. No method throws or rejects: a store that loses its network counts by
 * itself for that time.
 */
export interface LimitStore {
  /** Takes the costs of all items, or of none when one of them does not pass. */
  charge(keyId: string, items: readonly ChargeItem[]): Promise<Charged>;
  /**
   * Takes `amount` from a count that was charged before, whatever is left of it; a negative amount gives back. It does
   * nothing for a name that was never charged.
   */
  settle(keyId: string, name: string, amount: number): void;
  /** Takes a place; undefined when `limit` of them are taken. The holder releases it, whatever happens. */
  takePlace(keyId: string, name: string, limit: number): Promise<Place | undefined>;
}
