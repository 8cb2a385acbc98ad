import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { KeySeries } from "./key-series.ts";
import {
  addCounts,
  DAY_MS,
  entryName,
  KEPT_DAYS,
  NO_USE,
  type StoredUsage,
  type UsageBatch,
  type UsageCounts,
  type UsageEntry,
  type UsageStore,
} from "./usage-store.ts";

/** Milliseconds between two batches to the store. */
const FLUSH_MS = 1_000;
/** The most keys whose use today is read together. */
const MOST_RECENT = 50;

export type KeyUsageOptions = {
  readonly store: UsageStore;
  readonly series: KeySeries;
  readonly clock: Clock;
};

/**
 * Counts the use of keys, with or without limits. No request waits for the store: batches are sent once a second, and
 * after an outage of the store. Unsent counts are lost if the process is killed: limits and quotas are counted
 * separately.
 */
export class KeyUsage {
  readonly #options: KeyUsageOptions;
  /** Counts that the store is owed, by key, day and model. */
  #pending = new Map<string, UsageEntry>();
  /** Ids of the keys used last at this gateway, the newest last. */
  readonly #recent = new Set<string>();
  /** The batch whose delivery is uncertain. */
  #sent: UsageBatch | undefined;
  #lastNumber = 0;
  #flushing: Promise<boolean> | undefined;
  #cancel = () => {};
  #closed = false;

  constructor(options: KeyUsageOptions) {
    this.#options = options;
  }

  /** Counts the use of a request; `model` is the catalog id of its model, if known. */
  count(keyId: string, model: string | undefined, used: Partial<UsageCounts>): void {
    const counts = { ...NO_USE, ...used };
    const day = Math.floor(this.#options.clock.wallMs() / DAY_MS);
    const entry = { keyId, day, model: model ?? "", counts };
    const name = entryName(entry);
    const before = this.#pending.get(name);
    this.#pending.set(name, before ? { ...before, counts: addCounts(before.counts, counts) } : entry);
    this.#options.series.count(keyId, counts);
    this.#recent.delete(keyId);
    this.#recent.add(keyId);
    const [oldest] = this.#recent;
    if (oldest !== undefined && this.#recent.size > MOST_RECENT) this.#recent.delete(oldest);
    if (this.#pending.size === 1 && !before) this.#flushLater();
  }

  /**
   * Resolves to the use of a key in the last 31 days, at all gateways that share the store; the last second of other
   * gateways may be missing. Undefined if the store does not answer.
   */
  async read(keyId: string): Promise<StoredUsage | undefined> {
    if (!(await this.#flush())) return undefined;
    const stored = await this.#options.store.read(keyId);
    if (!stored) return undefined;
    const oldest = Math.floor(this.#options.clock.wallMs() / DAY_MS) - KEPT_DAYS + 1;
    return { ...stored, entries: stored.entries.filter(({ day }) => day >= oldest) };
  }

  /** Resolves to the use today, as `read` counts it, of the 50 keys used last at this gateway, the newest first. */
  async today(): Promise<readonly (readonly [keyId: string, counts: UsageCounts])[] | undefined> {
    if (!(await this.#flush())) return undefined;
    const day = Math.floor(this.#options.clock.wallMs() / DAY_MS);
    const read = async (keyId: string) => [keyId, await this.#options.store.read(keyId)] as const;
    const all = await Promise.all([...this.#recent].reverse().map(read));
    if (all.some(([, stored]) => !stored)) return undefined;
    return all.map(([keyId, stored]) => {
      const entries = stored?.entries.filter((entry) => entry.day === day) ?? [];
      return [keyId, entries.reduce((sum, { counts }) => addCounts(sum, counts), NO_USE)];
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#flush();
    this.#cancel();
  }

  #flushLater(): void {
    if (this.#closed) return;
    this.#cancel();
    this.#cancel = this.#options.clock.after(FLUSH_MS, () => void this.#flush());
  }

  async #flush(): Promise<boolean> {
    // Counts that arrived during an older batch are in the next one.
    await this.#flushing;
    this.#flushing ??= this.#flushAll().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #flushAll(): Promise<boolean> {
    while (this.#sent || this.#pending.size > 0) {
      this.#sent ??= this.#nextBatch();
      if (!(await this.#options.store.add(this.#sent))) {
        this.#flushLater();
        return false;
      }
      this.#sent = undefined;
    }
    return true;
  }

  #nextBatch(): UsageBatch {
    this.#lastNumber += 1;
    const entries = [...this.#pending.values()];
    this.#pending = new Map();
    return { number: this.#lastNumber, entries };
  }
}
