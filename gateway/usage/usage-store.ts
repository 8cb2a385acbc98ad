/** The length of a day in UTC, in milliseconds. */
export const DAY_MS = 86_400_000;

/** The number of days, today included, for which usage is kept. */
export const KEPT_DAYS = 31;

/** The names of what is counted of a key, in the order in which replies have them. */
export const USAGE_NAMES = ["requests", "refused", "inputTokens", "cachedTokens", "outputTokens"] as const;

/**
 * The counts of a key's use: requests that counted against its limits, requests that a limit of it refused, and tokens as
 * engines counted them; `cachedTokens` is a part of `inputTokens`.
 */
export type UsageCounts = Readonly<Record<(typeof USAGE_NAMES)[number], number>>;

/** What one key has used of one model on one day. It holds numbers and names of ours only, and nothing of a request. */
export type UsageEntry = {
  /** The public id of the key. */
  readonly keyId: string;
  /** The day in UTC, as whole days since the epoch. */
  readonly day: number;
  /** The catalog id of the model; empty where a request ended before its model was known. */
  readonly model: string;
  /** The counts of that day. */
  readonly counts: UsageCounts;
};

/** Counts that are told to a store together. */
export type UsageBatch = {
  /** The number of the batch, from 1; each one of a gateway has a higher number than the one before. */
  readonly number: number;
  /** The counts to add, at most one entry for each key, day and model. */
  readonly entries: readonly UsageEntry[];
};

/** What a store knows of the use of one key. */
export type StoredUsage = {
  /** The moment from which on all use is counted, in milliseconds since the epoch. */
  readonly sinceMs: number;
  /** The counts of each day and model on which the key was used. */
  readonly entries: readonly UsageEntry[];
};

/** Keeps what keys have used, for one gateway or for all that share it. No method rejects. */
export interface UsageStore {
  /**
   * Adds a batch. Resolves to whether the store has it; a batch that it may have or not is added again under its number
   * until it has it, and counts once.
   */
  add(batch: UsageBatch): Promise<boolean>;
  /** Resolves to what is known of a key; undefined where whoever keeps usage is silent. */
  read(keyId: string): Promise<StoredUsage | undefined>;
}

/** Returns the sums of two counts. */
export function addCounts(one: UsageCounts, other: UsageCounts): UsageCounts {
  return {
    requests: one.requests + other.requests,
    refused: one.refused + other.refused,
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
  };
}

/** The counts of a key that has used nothing. */
export const NO_USE: UsageCounts = { requests: 0, refused: 0, inputTokens: 0, cachedTokens: 0, outputTokens: 0 };
