import type { Clock } from "../../deploy/runtime/time/clock.ts";
import {
  addCounts,
  DAY_MS,
  KEPT_DAYS,
  NO_USE,
  type StoredUsage,
  type UsageBatch,
  type UsageEntry,
  type UsageStore,
} from "./usage-store.ts";

/** Most entries, some 20 MB; beyond them the oldest days are dropped, but never today. */
const MAX_ENTRIES = 100_000;

/** The use of keys in memory, for the life of the process. */
export class UsageBook implements UsageStore {
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #maxEntries: number;
  /** Entries of each key, by day and model. */
  readonly #keys = new Map<string, Map<string, UsageEntry>>();
  #entries = 0;
  #sinceMs: number;
  #oldest: number;

  /** `maxEntries` is the most entries, of a key, day and model each; default: 100,000. */
  constructor(clock: Pick<Clock, "wallMs">, maxEntries: number = MAX_ENTRIES) {
    this.#clock = clock;
    this.#maxEntries = maxEntries;
    this.#sinceMs = clock.wallMs();
    this.#oldest = Math.floor(this.#sinceMs / DAY_MS);
  }

  async add({ entries }: UsageBatch): Promise<boolean> {
    for (const entry of entries) {
      if (entry.day < this.#oldest) continue;
      const { keyId, day, model, counts } = entry;
      const ofKey = this.#keys.get(keyId) ?? new Map<string, UsageEntry>();
      this.#keys.set(keyId, ofKey);
      const place = `${day} ${model}`;
      const before = ofKey.get(place);
      if (!before) this.#entries += 1;
      ofKey.set(place, { keyId, day, model, counts: addCounts(before?.counts ?? NO_USE, counts) });
    }
    const today = Math.floor(this.#clock.wallMs() / DAY_MS);
    if (this.#oldest <= today - KEPT_DAYS) this.#forgetBefore(today - KEPT_DAYS + 1);
    while (this.#entries > this.#maxEntries && this.#oldest < today) this.#forgetBefore(this.#oldest + 1);
    return true;
  }

  async read(keyId: string): Promise<StoredUsage> {
    return { sinceMs: this.#sinceMs, entries: [...(this.#keys.get(keyId)?.values() ?? [])] };
  }

  #forgetBefore(day: number): void {
    this.#oldest = day;
    this.#sinceMs = Math.max(this.#sinceMs, day * DAY_MS);
    for (const [keyId, ofKey] of this.#keys) {
      for (const [place, entry] of ofKey)
        if (entry.day < day) {
          ofKey.delete(place);
          this.#entries -= 1;
        }
      if (ofKey.size === 0) this.#keys.delete(keyId);
    }
  }
}
