import type { Clock } from "../../deploy/runtime/time/clock.ts";

export const DAY_MS = 86_400_000;

/** Days for which usage is kept, including today. */
export const KEPT_DAYS = 31;

/** Names of the counts of a key, in the order of replies. */
export const USAGE_NAMES = ["requests", "refused", "inputTokens", "cachedTokens", "outputTokens"] as const;

/**
 * The use of a key: requests that counted against its limits, requests that one of its limits refused, and tokens as
 * engines counted them; `cachedTokens` is a part of `inputTokens`.
 */
export type UsageCounts = Readonly<Record<(typeof USAGE_NAMES)[number], number>>;

/** Returns the name of an entry among those of all keys. */
export function entryName({ keyId, day, model }: Omit<UsageEntry, "counts">): string {
  return `${keyId} ${day} ${model}`;
}

/**
 * The use of one key for one model on one day. It holds only numbers and ids of the service, and no part of a request.
 */
export type UsageEntry = {
  readonly keyId: string;
  /** Days since the epoch in UTC. */
  readonly day: number;
  /** Catalog id; empty if a request ended before its model was known. */
  readonly model: string;
  readonly counts: UsageCounts;
};

export type UsageBatch = {
  /** Number of the batch, from 1, increasing for each gateway. */
  readonly number: number;
  readonly entries: readonly UsageEntry[];
};

export type StoredUsage = {
  /** Since when all use is counted, in milliseconds since the epoch. */
  readonly sinceMs: number;
  readonly entries: readonly UsageEntry[];
};

/** The use of keys, for one gateway or for all that share it. No method rejects. */
export interface UsageStore {
  /**
   * Adds a batch. Resolves to whether the store has it; after an uncertain delivery the same number is sent again, and
   * counts once.
   */
  add(batch: UsageBatch): Promise<boolean>;
  /** Resolves to the use of a key; undefined if the store does not answer. */
  read(keyId: string): Promise<StoredUsage | undefined>;
}

export function addCounts(one: UsageCounts, other: UsageCounts): UsageCounts {
  const sum = { ...one };
  for (const name of USAGE_NAMES) sum[name] += other[name];
  return sum;
}

export const NO_USE: UsageCounts = { requests: 0, refused: 0, inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/** Most entries, some 20 MB; beyond them the oldest days are dropped, but never today. */
const MAX_ENTRIES = 100_000;

export class UsageBook implements UsageStore {
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #maxEntries: number;
  /** Entries by day and name. */
  readonly #days = new Map<number, Map<string, UsageEntry>>();
  #entries = 0;
  #sinceMs: number;

  constructor(clock: Pick<Clock, "wallMs">, maxEntries: number = MAX_ENTRIES) {
    this.#clock = clock;
    this.#maxEntries = maxEntries;
    this.#sinceMs = clock.wallMs();
  }

  async add({ entries }: UsageBatch): Promise<boolean> {
    for (const entry of entries) {
      if ((entry.day + 1) * DAY_MS <= this.#sinceMs) continue;
      const day = this.#days.get(entry.day) ?? new Map<string, UsageEntry>();
      const before = day.get(entryName(entry))?.counts;
      if (!before) this.#entries += 1;
      day.set(entryName(entry), { ...entry, counts: addCounts(before ?? NO_USE, entry.counts) });
      this.#days.set(entry.day, day);
    }
    const today = Math.floor(this.#clock.wallMs() / DAY_MS);
    for (const day of [...this.#days.keys()].sort((one, other) => one - other))
      if (day <= today - KEPT_DAYS || (day < today && this.#entries > this.#maxEntries)) this.#drop(day);
    return true;
  }

  async read(keyId: string): Promise<StoredUsage> {
    const entries = [...this.#days.values()].flatMap((day) => [...day.values()].filter((one) => one.keyId === keyId));
    const oldestMs = (Math.floor(this.#clock.wallMs() / DAY_MS) - KEPT_DAYS + 1) * DAY_MS;
    return { sinceMs: Math.max(this.#sinceMs, oldestMs), entries };
  }

  #drop(day: number): void {
    this.#entries -= this.#days.get(day)?.size ?? 0;
    this.#days.delete(day);
    this.#sinceMs = Math.max(this.#sinceMs, (day + 1) * DAY_MS);
  }
}
