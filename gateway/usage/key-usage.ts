import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { KeySeries } from "./key-series.ts";
import {
  addCounts,
  DAY_MS,
  KEPT_DAYS,
  NO_USE,
  type StoredUsage,
  type UsageBatch,
  type UsageCounts,
  type UsageEntry,
  type UsageStore,
} from "./usage-store.ts";

/** The time between two batches to the store, in milliseconds. */
const TELL_MS = 1_000;

/** What the counting of keys' use works with. */
export type KeyUsageOptions = {
  /** Where use is kept. */
  readonly store: UsageStore;
  /** Shows the use of keys as metrics. */
  readonly series: KeySeries;
  /** The clock that dates use, and by which the store is told of it. */
  readonly clock: Clock;
};

/**
 * Counts what keys use, with or without limits. No request waits for the store: it is told once a second what was used,
 * and once it is back where it was away. What a process has not told when it is killed is lost: limits and quotas are
 * counted apart from this.
 */
export class KeyUsage {
  readonly #options: KeyUsageOptions;
  /** What the store is yet to be told, by key, day and model. */
  #pending = new Map<string, UsageEntry>();
  /** The batch that the store may or may not have. */
  #sent: UsageBatch | undefined;
  #lastNumber = 0;
  #telling: Promise<boolean> | undefined;
  #cancel = () => {};
  #closed = false;

  constructor(options: KeyUsageOptions) {
    this.#options = options;
  }

  /** Counts what a request has used; `model` is the catalog id of its model, where it is known. */
  count(keyId: string, model: string | undefined, used: Partial<UsageCounts>): void {
    const counts = { ...NO_USE, ...used };
    const day = Math.floor(this.#options.clock.wallMs() / DAY_MS);
    const entry = { keyId, day, model: model ?? "", counts };
    const place = placeOf(entry);
    const before = this.#pending.get(place);
    this.#pending.set(place, before ? { ...before, counts: addCounts(before.counts, counts) } : entry);
    this.#options.series.count(keyId, counts);
    if (this.#pending.size === 1 && !before) this.#tellLater();
  }

  /**
   * Resolves to what a key has used in the last 31 days, at all gateways that share the store; what others used in the
   * last second may be missing. Undefined where the store is silent.
   */
  async read(keyId: string): Promise<StoredUsage | undefined> {
    if (!(await this.#tell())) return undefined;
    const stored = await this.#options.store.read(keyId);
    if (!stored) return undefined;
    const oldest = Math.floor(this.#options.clock.wallMs() / DAY_MS) - KEPT_DAYS + 1;
    return { ...stored, entries: stored.entries.filter(({ day }) => day >= oldest) };
  }

  /** Tells the store what it is yet to be told, as far as it answers, and stops. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#tell();
    this.#cancel();
  }

  #tellLater(): void {
    if (this.#closed) return;
    this.#cancel();
    this.#cancel = this.#options.clock.after(TELL_MS, () => void this.#tell());
  }

  /** Tells the store all that was counted before. Resolves to whether it has it. */
  async #tell(): Promise<boolean> {
    // What came while an older batch was on its way goes with the next one.
    await this.#telling;
    this.#telling ??= this.#tellAll().finally(() => {
      this.#telling = undefined;
    });
    return this.#telling;
  }

  async #tellAll(): Promise<boolean> {
    while (this.#sent || this.#pending.size > 0) {
      this.#sent ??= this.#nextBatch();
      if (!(await this.#options.store.add(this.#sent))) {
        this.#tellLater();
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

function placeOf({ keyId, day, model }: UsageEntry): string {
  return `${keyId} ${day} ${model}`;
}
