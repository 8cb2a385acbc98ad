import type { PriorityClass } from "../../../deploy/runtime/queue/class-share.ts";
import { FairQueue } from "../../../deploy/runtime/queue/fair-queue.ts";

/** The weight of the newest interval between two served requests in the average: the last dozen dominate. */
const NEWEST_SHARE = 0.15;

/** The tokens that every request costs in the queue for its answer, in addition to its prompt's tokens. */
export const OUTPUT_RESERVE_TOKENS = 1_024;

/** A request that waits for an endpoint. */
export type Pending<T> = {
  /** The tenant that the request belongs to: the queue is fair between tenants. */
  readonly key: string;
  /** The request's API key; a tenant may have several. */
  readonly keyId: string;
  /** The most pending requests of the API key; undefined for the cluster's limit per key. */
  readonly maxPendingPerKey: number | undefined;
  /**
   * Whether the request continues an answer under way: it is served before all that do not, no limit refuses it, and no
   * other request displaces it.
   */
  readonly underWay: boolean;
  readonly priorityClass: PriorityClass;
  /** The weight of the tenant among others of its class; above 0. */
  readonly weight: number;
  /**
   * The rank of the request among those of its tenant: a higher rank is served earlier. While the request waits, only
   * `PendingQueue.rerank` changes it.
   */
  rank: number;
  /** The expected tokens to prefill for the request, and the reserve for its answer; above 0. */
  readonly cost: number;
  /** Monotonic milliseconds at which the request began to wait. */
  readonly queuedMs: number;
  /**
   * Monotonic milliseconds at which the wait ends. While the request waits, only `PendingQueue.reschedule` changes it.
   */
  deadlineMs: number;
  /**
   * Whether a prefill wait leaves the deadline as it is: an outage or an earlier prefill wait has moved it, or the
   * answer is under way.
   */
  hasFixedDeadline: boolean;
  /** The value that the owner of the queue stores with the request. */
  readonly value: T;
};

/**
 * The result of adding a request. `dropped` is the waiting request that was dropped for it, undefined if none was;
 * `limit` is the limit that refused it, the key's or the cluster's.
 */
export type Enqueued<T> =
  | { readonly queued: true; readonly dropped: Pending<T> | undefined }
  | { readonly queued: false; readonly limit: "key" | "cluster" };

/**
 * The queue of a cluster, fair as every `FairQueue`. It is bounded: when it is full, a key with fewer requests than the
 * largest one is admitted, and the request of the largest key with the earliest deadline is dropped. Among the requests
 * of one key and rank the oldest is next.
 */
export class PendingQueue<T> {
  readonly #maxPendingPerKey: number;
  readonly #waiting = new FairQueue<Pending<T>>();
  /** The requests whose answers are under way; fair as the others, and served before them. */
  readonly #underWay = new FairQueue<Pending<T>>();
  readonly #drain = new DrainEstimate();
  #maxPending = 0;
  /** A monotonic time before which no deadline passes, in milliseconds. */
  #noneLateUntilMs = Number.NEGATIVE_INFINITY;

  /** `maxPendingPerKey` is the limit for each key without one of its own. */
  constructor(maxPendingPerKey: number) {
    this.#maxPendingPerKey = maxPendingPerKey;
  }

  /** The number of waiting requests. */
  get size(): number {
    return this.#waiting.size + this.#underWay.size;
  }

  /** The number of waiting requests of one priority class. */
  sizeOf(priorityClass: PriorityClass): number {
    return this.#waiting.sizeOf(priorityClass) + this.#underWay.sizeOf(priorityClass);
  }

  /** Sets the limit on waiting requests, 0 at first. Requests that already wait stay. */
  setMaxPending(maxPending: number): void {
    this.#maxPending = maxPending;
  }

  /** Adds a request. `expire` must be called before, for requests past their deadline. */
  push(item: Pending<T>): Enqueued<T> {
    this.reschedule(item, item.deadlineMs);
    if (item.underWay) {
      this.#underWay.push(item);
      return { queued: true, dropped: undefined };
    }
    const ofKey = this.#waiting.itemsOf(item.key).filter(({ keyId }) => keyId === item.keyId).length;
    if (ofKey >= (item.maxPendingPerKey ?? this.#maxPendingPerKey)) return { queued: false, limit: "key" };
    const full = this.#waiting.size >= this.#maxPending;
    const dropped = full ? earliest(this.#waiting.crowdBeside(item.key)) : undefined;
    if (full && !dropped) return { queued: false, limit: "cluster" };
    if (dropped) this.cancel(dropped);
    if (this.size === 0) this.#drain.pause();
    this.#waiting.push(item);
    return { queued: true, dropped };
  }

  /** Moves the deadline of a waiting request, in milliseconds of the monotonic clock. */
  reschedule(item: Pending<T>, deadlineMs: number): void {
    item.deadlineMs = deadlineMs;
    this.#noneLateUntilMs = Math.min(this.#noneLateUntilMs, deadlineMs);
  }

  /**
   * Removes and returns the next request, of none of the tenants in `aside`; undefined where there is none. `expire`
   * must be called before, for requests past their deadline.
   */
  next(aside?: ReadonlySet<string>): Pending<T> | undefined {
    return this.#underWay.next(aside) ?? this.#waiting.next(aside);
  }

  /** Undoes calls of `next` whose results could not be served. `items` are these results in their order. */
  putBack(items: readonly Pending<T>[]): void {
    this.#waiting.putBack(items.filter(({ underWay }) => !underWay));
    this.#underWay.putBack(items.filter(({ underWay }) => underWay));
  }

  /** Removes a request whose caller gave up. Returns false when it was no longer waiting. */
  cancel(item: Pending<T>): boolean {
    return (item.underWay ? this.#underWay : this.#waiting).remove(item);
  }

  /** Changes the rank of a request among those of its tenant, also before it waits. */
  rerank(item: Pending<T>, rank: number): void {
    if (item.rank === rank) return;
    item.rank = rank;
    const queue = item.underWay ? this.#underWay : this.#waiting;
    if (queue.remove(item)) queue.push(item);
  }

  /** Adds a request back that `expire` removed, regardless of limits. */
  pushAgain(item: Pending<T>): void {
    this.reschedule(item, item.deadlineMs);
    (item.underWay ? this.#underWay : this.#waiting).push(item);
  }

  /** Counts a request that `next` returned and that was served. */
  served(nowMs: number): void {
    this.#drain.served(nowMs);
  }

  /**
   * Returns the expected time until one more request than now waiting is served, in milliseconds; undefined without an
   * estimate.
   */
  drainMs(nowMs: number): number | undefined {
    return this.#drain.waitMs(this.size, nowMs);
  }

  /** Returns the waiting requests, in approximate order of service. */
  order(): readonly Pending<T>[] {
    return [...this.#underWay.order(), ...this.#waiting.order()];
  }

  /** Removes and returns the requests for which `isHopeless` holds. */
  giveUp(isHopeless: (value: T) => boolean): Pending<T>[] {
    const hopeless = this.#items().filter(({ value }) => isHopeless(value));
    for (const item of hopeless) this.cancel(item);
    return hopeless;
  }

  /** Removes and returns the requests past their deadline. */
  expire(nowMs: number): Pending<T>[] {
    if (nowMs < this.#noneLateUntilMs) return [];
    const late: Pending<T>[] = [];
    let soonestMs = Number.POSITIVE_INFINITY;
    for (const item of this.#items()) {
      if (item.deadlineMs <= nowMs) late.push(item);
      else soonestMs = Math.min(soonestMs, item.deadlineMs);
    }
    this.#noneLateUntilMs = soonestMs;
    for (const item of late) this.cancel(item);
    return late;
  }

  #items(): readonly Pending<T>[] {
    return this.#underWay.size === 0 ? this.#waiting.items() : [...this.#underWay.items(), ...this.#waiting.items()];
  }
}

function earliest<T>(items: readonly Pending<T>[]): Pending<T> | undefined {
  return items.reduce<Pending<T> | undefined>(
    (first, item) => (!first || item.deadlineMs < first.deadlineMs ? item : first),
    undefined,
  );
}

/** Estimates when a queue will have served its waiting requests, by the recent rate of service. */
class DrainEstimate {
  #intervalMs: number | undefined;
  #lastMs: number | undefined;

  /** Counts a request that had waited and was served. */
  served(nowMs: number): void {
    if (this.#lastMs !== undefined) {
      const intervalMs = nowMs - this.#lastMs;
      this.#intervalMs =
        this.#intervalMs === undefined ? intervalMs : this.#intervalMs + NEWEST_SHARE * (intervalMs - this.#intervalMs);
    }
    this.#lastMs = nowMs;
  }

  /** Discards the time of the last service: after an idle time the interval carries no information. */
  pause(): void {
    this.#lastMs = undefined;
  }

  /**
   * Returns the time until one more than `waiting` requests are served, in milliseconds; undefined without an estimate.
   */
  waitMs(waiting: number, nowMs: number): number | undefined {
    if (this.#intervalMs === undefined) return undefined;
    // The queue may just have stalled.
    const sinceMs = waiting === 0 || this.#lastMs === undefined ? 0 : nowMs - this.#lastMs;
    return (waiting + 1) * Math.max(this.#intervalMs, sinceMs);
  }
}
