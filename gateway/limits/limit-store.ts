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

/** A limit on what a key has under way at one time, of which a request wants a place. */
export type PlaceItem = {
  /** The name of the places, unique among those of the key. */
  readonly name: string;
  /** The number of places that there are by the newest record of the key, at least 1. */
  readonly limit: number;
};

/** The outcome of a charge. */
export type Charged = {
  /** Whether every item passed and was taken, and all places that were asked for; otherwise nothing was. */
  readonly ok: boolean;
  /**
   * The reason why a charge did not pass, other than an item: all places of a limit are taken, or nobody may be let in
   * as the store does not answer. Absent where the charge passed, or an item did not.
   */
  readonly refusedBy?: "place" | "store" | undefined;
  /** The name of the places of which none is free, the first of those asked for; absent where no place refused. */
  readonly full?: string | undefined;
  /** All places that were taken, as one, which the holder releases, whatever happens; absent where none was. */
  readonly place?: Place | undefined;
  /**
   * The readings of how the limits stand, in the order of the items, after the charge where it passed. Where places
   * refused it, nothing waits for an item; where the store does not answer, there may be none.
   */
  readonly readings: readonly Reading[];
};

/** A place among the generations, or the token counts, that a key may have under way at one time, or several of them. */
export type Place = {
  /** Gives the place back. Further calls do nothing. */
  release(): void;
};

/** A question that a store was not asked yet, as nothing speaks against the request that it is about. */
export type Postponed = {
  /** Says that the question was asked, or never will be. Further calls do nothing. */
  end(): void;
};

/**
 * Keeps the counts of all keys; several gateways may share one store. Rules come with every charge, so a change of a
 * key's limits holds from its next request on. No method throws or rejects: a store that loses its network counts by
 * itself for that time.
 */
export interface LimitStore {
  /** Takes the costs of all items and all places, or nothing when one of them does not pass or no place is free. */
  charge(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Promise<Charged>;
  /**
   * Notes that these costs and places will be asked for together with more, once that is known, and returns what ends
   * the note. Undefined where the store is to be asked at once: it costs nothing, or is likely to refuse, as far as this
   * gateway knows. Absent where asking never costs anything.
   */
  postpone?(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Postponed | undefined;
  /**
   * Takes `amount` from a count that was charged before, whatever is left of it; a negative amount gives back. It does
   * nothing for a name that was never charged.
   */
  settle(keyId: string, name: string, amount: number): void;
}
