import { type FairItem, FairQueue, type PriorityClass } from "../../../deploy/runtime/queue/fair-queue.ts";

/** The weight of the newest interval between two served requests in the average: the last dozen dominate. */
const NEWEST_SHARE = 0.15;

/** A request in the queue; its `key` is the tenant. */
export type Queued = FairItem & {
  /** The request's API key; a tenant may have several. */
  readonly keyId: string;
  /** The most pending requests of the API key. */
  readonly maxPendingPerKey: number;
  /**
   * Whether the request continues an answer under way: it is served before all that do not, no limit refuses it, and no
   * other request displaces it.
   */
  readonly underWay: boolean;
  /** Changed by `PendingQueue.rerank` only. */
  rank: number;
  /** The monotonic milliseconds at which the wait ends. */
  deadlineMs: number;
};

/** The result of adding a request: the one dropped for it, if any; or the limit that refused it. */
export type Enqueued<Item> = { readonly dropped: Item | undefined } | { readonly limit: "key" | "cluster" };

/**
 * The bounded queue of a cluster, fair between tenants. When it is full, a tenant with fewer requests than the largest
 * one is admitted, and the request of the largest with the earliest deadline is dropped.
 */
export class PendingQueue<Item extends Queued> {
  readonly #waiting = new FairQueue<Item>();
  readonly #underWay = new FairQueue<Item>();
  /** The average interval between two served requests, in milliseconds; undefined before the second. */
  #intervalMs: number | undefined;
  /** The time of the last service; undefined after an idle time, whose interval carries no information. */
  #lastMs: number | undefined;

  get size(): number {
    return this.#waiting.size + this.#underWay.size;
  }

  sizeOf(priorityClass: PriorityClass): number {
    return this.#waiting.sizeOf(priorityClass) + this.#underWay.sizeOf(priorityClass);
  }

  /** Returns the requests in no particular order. */
  items(): readonly Item[] {
    return [...this.#underWay.items(), ...this.#waiting.items()];
  }

  /** Yields the requests in the order of service, those of the tenants in `aside` excluded; see `FairQueue.order`. */
  *order(aside?: ReadonlySet<string>): Generator<Item, void, undefined> {
    yield* this.#underWay.order();
    yield* this.#waiting.order(aside);
  }

  /** Adds a request to a queue of at most `maxPending`. */
  push(item: Item, maxPending: number): Enqueued<Item> {
    if (this.size === 0) this.#lastMs = undefined;
    if (item.underWay) {
      this.#underWay.push(item);
      return { dropped: undefined };
    }
    const ofKey = this.#waiting.itemsOf(item.key).filter(({ keyId }) => keyId === item.keyId).length;
    if (ofKey >= item.maxPendingPerKey) return { limit: "key" };
    const full = this.#waiting.size >= maxPending;
    const dropped = full ? earliest(this.#waiting.crowdBeside(item.key)) : undefined;
    if (full && !dropped) return { limit: "cluster" };
    if (dropped) this.remove(dropped);
    this.#waiting.push(item);
    return { dropped };
  }

  /** Removes a request that is served now. */
  take(item: Item, nowMs: number): void {
    this.#of(item).take(item);
    if (this.#lastMs !== undefined) {
      const intervalMs = nowMs - this.#lastMs;
      const before = this.#intervalMs ?? intervalMs;
      this.#intervalMs = before + NEWEST_SHARE * (intervalMs - before);
    }
    this.#lastMs = nowMs;
  }

  /** Removes a request that leaves without being served. */
  remove(item: Item): void {
    this.#of(item).remove(item);
  }

  /** Changes the rank of a request among those of its tenant, also before it waits. */
  rerank(item: Item, rank: number): void {
    if (item.rank === rank) return;
    const waited = this.#of(item).remove(item);
    item.rank = rank;
    if (waited) this.#of(item).push(item);
  }

  /**
   * Returns the expected time until one more request than now waiting is served, in milliseconds; undefined without an
   * estimate.
   */
  drainMs(nowMs: number): number | undefined {
    if (this.#intervalMs === undefined) return undefined;
    // The queue may just have stalled.
    const sinceMs = this.size === 0 || this.#lastMs === undefined ? 0 : nowMs - this.#lastMs;
    return (this.size + 1) * Math.max(this.#intervalMs, sinceMs);
  }

  #of({ underWay }: Item): FairQueue<Item> {
    return underWay ? this.#underWay : this.#waiting;
  }
}

function earliest<Item extends Queued>(items: readonly Item[]): Item | undefined {
  return items.reduce<Item | undefined>(
    (first, item) => (!first || item.deadlineMs < first.deadlineMs ? item : first),
    undefined,
  );
}
