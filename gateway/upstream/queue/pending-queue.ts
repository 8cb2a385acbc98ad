import type { PriorityClass } from "../../../deploy/runtime/queue/class-share.ts";
import { FairQueue } from "../../../deploy/runtime/queue/fair-queue.ts";

/** The share that the newest interval between two served requests has in their average: the last dozen or so count. */
const NEWEST_SHARE = 0.15;

/** The tokens that every request costs in the queue for its answer, on top of its prompt's tokens. */
export const OUTPUT_RESERVE_TOKENS = 1_024;

/** A request that waits for an endpoint. */
export type Pending<T> = {
  /** The tenant that the request belongs to: the queue is fair between tenants. */
  readonly key: string;
  /** The API key that the request came with; a tenant may have several. */
  readonly keyId: string;
  /** The number of requests of the API key that may wait; undefined for as many as the cluster lets every key have. */
  readonly maxPendingPerKey: number | undefined;
  /**
   * Whether the request goes on with an answer that is under way: it is served before all that are not, no bound keeps
   * it out, and nobody's coming drops it.
   */
  readonly underWay: boolean;
  /** The class of service that the request belongs to. */
  readonly priorityClass: PriorityClass;
  /** The share that the tenant has beside others of its class; above 0. */
  readonly weight: number;
  /**
   * The place of the request among those of its tenant: a higher rank is served earlier. Of one that waits, only
   * `PendingQueue.rerank` changes it.
   */
  rank: number;
  /** The tokens that are expected to be prefilled for the request, and the reserve for its answer; above 0. */
  readonly cost: number;
  /** Monotonic milliseconds at which the request began to wait. */
  readonly queuedMs: number;
  /** Monotonic milliseconds at which the request gives up. Of one that waits, only `PendingQueue.reschedule` changes it. */
  deadlineMs: number;
  /** Whether a prefill wait leaves the deadline as it is: an outage or an earlier prefill wait has moved it, or the answer is under way. */
  hasFixedDeadline: boolean;
  /** Whatever the owner of the queue keeps with the request. */
  readonly value: T;
};

/**
 * The answer to a request that asked to wait. `dropped` is the waiting request that had to make room for it, undefined
 * when none had to; `limit` says whether the key or the cluster had no room.
 */
export type Enqueued<T> =
  | { readonly queued: true; readonly dropped: Pending<T> | undefined }
  | { readonly queued: false; readonly limit: "key" | "cluster" };

/**
 * The one long queue in front of a cluster, fair as every `FairQueue`. It is bounded: when it is full, a key with fewer
 * requests than the largest one gets in, and the request of the largest key that would have given up first makes room.
 * Among the requests of one key and rank the oldest is next.
 */
export class PendingQueue<T> {
  readonly #maxPendingPerKey: number;
  readonly #waiting = new FairQueue<Pending<T>>();
  /** The requests whose answers are under way; fair as the others, and served before them. */
  readonly #underWay = new FairQueue<Pending<T>>();
  readonly #drain = new DrainEstimate();
  #maxPending = 0;
  /** A moment before which nobody's time is up, in milliseconds of the monotonic clock. */
  #noneLateUntilMs = Number.NEGATIVE_INFINITY;

  /** Makes an empty queue; `maxPendingPerKey` requests of a key may wait, unless the key has a number of its own. */
  constructor(maxPendingPerKey: number) {
    this.#maxPendingPerKey = maxPendingPerKey;
  }

  /** The number of requests that wait. */
  get size(): number {
    return this.#waiting.size + this.#underWay.size;
  }

  /** The number of requests of one class of service that wait. */
  sizeOf(priorityClass: PriorityClass): number {
    return this.#waiting.sizeOf(priorityClass) + this.#underWay.sizeOf(priorityClass);
  }

  /** Sets the number of requests that may wait, 0 at first. Requests that wait already stay. */
  setMaxPending(maxPending: number): void {
    this.#maxPending = maxPending;
  }

  /** Adds a request. Requests whose time is up have to be taken out before, by `expire`. */
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

  /** Has a request that waits give up at another moment, in milliseconds of the monotonic clock. */
  reschedule(item: Pending<T>, deadlineMs: number): void {
    item.deadlineMs = deadlineMs;
    this.#noneLateUntilMs = Math.min(this.#noneLateUntilMs, deadlineMs);
  }

  /**
   * Takes out the request that is to be served next, of none of the tenants in `aside`; undefined where there is none.
   * Requests whose time is up have to be taken out before.
   */
  next(aside?: ReadonlySet<string>): Pending<T> | undefined {
    return this.#underWay.next(aside) ?? this.#waiting.next(aside);
  }

  /** Undoes calls of `next` whose results could not be served. `items` are these results in their order. */
  putBack(items: readonly Pending<T>[]): void {
    this.#waiting.putBack(items.filter(({ underWay }) => !underWay));
    this.#underWay.putBack(items.filter(({ underWay }) => underWay));
  }

  /** Takes out a request whose caller gave up. Returns false when it was not waiting any more. */
  cancel(item: Pending<T>): boolean {
    return (item.underWay ? this.#underWay : this.#waiting).remove(item);
  }

  /** Gives a request another rank among those of its tenant, also one that does not wait yet. */
  rerank(item: Pending<T>, rank: number): void {
    if (item.rank === rank) return;
    item.rank = rank;
    const queue = item.underWay ? this.#underWay : this.#waiting;
    if (queue.remove(item)) queue.push(item);
  }

  /** Adds a request again that was taken out by `expire`: no bound keeps it out. */
  pushAgain(item: Pending<T>): void {
    this.reschedule(item, item.deadlineMs);
    (item.underWay ? this.#underWay : this.#waiting).push(item);
  }

  /** Counts a request that `next` returned and that was served. */
  served(nowMs: number): void {
    this.#drain.served(nowMs);
  }

  /**
   * Returns the time until one more request would be served than wait now, in milliseconds; undefined while nothing is
   * known.
   */
  drainMs(nowMs: number): number | undefined {
    return this.#drain.waitMs(this.size, nowMs);
  }

  /** Returns the requests that wait, in about the order in which they are served. */
  order(): readonly Pending<T>[] {
    return [...this.#underWay.order(), ...this.#waiting.order()];
  }

  /** Takes out and returns the requests for which `isHopeless` holds. */
  giveUp(isHopeless: (value: T) => boolean): Pending<T>[] {
    const hopeless = this.#items().filter(({ value }) => isHopeless(value));
    for (const item of hopeless) this.cancel(item);
    return hopeless;
  }

  /** Takes out and returns the requests whose time is up. */
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

/** Estimates when a queue will have served the requests that wait, by how fast it has served the last ones. */
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

  /** Forgets when the last request was served: after a time in which nobody waited that says nothing. */
  pause(): void {
    this.#lastMs = undefined;
  }

  /**
   * Returns the time until one more than `waiting` requests would be served, in milliseconds; undefined while nothing
   * is known.
   */
  waitMs(waiting: number, nowMs: number): number | undefined {
    if (this.#intervalMs === undefined) return undefined;
    // The queue may just have come to a stop.
    const sinceMs = waiting === 0 || this.#lastMs === undefined ? 0 : nowMs - this.#lastMs;
    return (waiting + 1) * Math.max(this.#intervalMs, sinceMs);
  }
}
