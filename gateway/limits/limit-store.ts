import type { BucketRule } from "./token-bucket.ts";

/** A bucket that refills evenly, or a `total` per UTC day. Use belongs to the day in which it is settled. */
export type LimitRule = ({ readonly kind: "bucket" } & BucketRule) | { readonly kind: "day"; readonly total: number };

export type ChargeItem = {
  /** Name of the count, unique within the key. */
  readonly name: string;
  readonly rule: LimitRule;
  /** Taken if all items pass. A cost of 0 passes unless there is a debt; undefined only reads, and passes. */
  readonly cost: number | undefined;
};

export type Reading = {
  /** Remaining units of the limit; below 0 if more was used than allowed. */
  readonly remaining: number;
  /** Whole milliseconds until the whole limit is available again. */
  readonly resetMs: number;
  /** Whole milliseconds until the requested cost passes; 0 if it passed. */
  readonly waitMs: number;
};

/** A limit on a key's concurrency, for generations or token counts, of which a request needs a permit. */
export type PermitItem = {
  readonly name: string;
  /** Number of permits in the newest record of the key, at least 1. */
  readonly limit: number;
};

export type Charged = {
  /** Whether every item and all permits were taken; otherwise none was. Taken permits must be released. */
  readonly ok: boolean;
  /** Refusal other than by an item: all permits are taken, or the store is silent and configured to refuse. */
  readonly refusedBy?: "permit" | "store";
  /** Name of the first limit without a free permit, if one refused. */
  readonly full?: string | undefined;
  /** State in the order of the items, after a passed charge. Refused permits: no waits; a silent store: maybe empty. */
  readonly readings: readonly Reading[];
};

/** A postponed request to the store: the charge that it is about is likely to pass. */
export type Postponed = {
  end(): void;
};

/**
 * The counts of all keys; several gateways may share one store. Rules are passed with every charge, so a change of a
 * key's limits applies to its next request. No method throws or rejects: while a store is unreachable, the gateway
 * counts locally.
 */
export interface LimitStore {
  /** Takes the costs of all items and all permits, or none of them if an item does not pass or no permit is free. */
  charge(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Promise<Charged>;
  /**
   * Notes costs and permits that a later charge will include, and returns the note. Undefined if the store should be
   * asked at once: asking is free, or this gateway expects a refusal. Absent if asking is always free.
   */
  postpone?(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Postponed | undefined;
  /** Charges a name that was charged before, whatever remains, else has no effect; negative amounts refund. */
  settle(keyId: string, name: string, amount: number): void;
  release(keyId: string, names: readonly string[]): void;
  held(keyId: string, name: string): number;
}
