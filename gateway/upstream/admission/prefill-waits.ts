import type { Pending, PendingQueue } from "../queue/pending-queue.ts";
import type { PlaceRequest } from "./place-search.ts";
import type { PrefillWait } from "./prefill-turns.ts";

/** The rank of a request that waits only for a place: higher ranks are served first. */
export const FIRST_RANK = 0;

/**
 * The delay of a request among those of its tenant that wait for prefill, in multiples of its own prefill time: short
 * ones must not wait long behind long ones.
 */
const OWN_PREFILL_WEIGHT = 8;

/** A request that may have to wait for its prefill. */
export type PrefillWaiter = {
  readonly request: Pick<PlaceRequest, "route" | "timeoutMs" | "mayHold">;
  /** The wait for prefill or for a place on one endpoint; undefined for any place. */
  wait: PrefillWait | undefined;
  /** Whether that wait has reached its limit. */
  overdue: boolean;
};

export type PrefillWaitsParts<Value extends PrefillWaiter> = {
  /** The cluster's queue. */
  readonly queue: Pick<PendingQueue<Value>, "reschedule" | "rerank" | "pushAgain">;
  /** The time after which a wait for prefill is overdue, in milliseconds. */
  readonly workingSetWaitMs: number;
};

/** Sets deadline and rank of the requests that wait for prefill in a cluster's queue. */
export class PrefillWaits<Value extends PrefillWaiter> {
  readonly #parts: PrefillWaitsParts<Value>;
  #count = 0;

  constructor(parts: PrefillWaitsParts<Value>) {
    this.#parts = parts;
  }

  /** The number of requests that wait for prefill, excluding those that wait only for a place. */
  get count(): number {
    return this.#count;
  }

  /** Starts or updates the wait of a request for its prefill; only for a place where `wait` is undefined. */
  waitFor(item: Pending<Value>, wait: PrefillWait | undefined, nowMs: number): void {
    const { queue } = this.#parts;
    const { value } = item;
    const { wait: before } = value;
    value.wait = wait;
    if (!wait === !before && wait?.kind === before?.kind) return;
    this.#count += Number(wait?.kind === "prefill") - Number(before?.kind === "prefill");
    if (!wait) return;
    const waitMs = this.#waitMsOf(value);
    if (!item.hasFixedDeadline) {
      item.hasFixedDeadline = true;
      queue.reschedule(item, nowMs + waitMs);
    }
    const dueMs = item.queuedMs + Math.min(waitMs, OWN_PREFILL_WEIGHT * wait.seconds * 1_000);
    queue.rerank(item, wait.kind === "place" ? FIRST_RANK : FIRST_RANK - 1 - dueMs);
  }

  /**
   * Marks a request whose wait for prefill reached its limit, and that the queue released, so that it takes any idle
   * endpoint. It becomes due now, and keeps its position: only requests due earlier precede it.
   */
  beOverdue(item: Pending<Value>, nowMs: number): void {
    const { queue, workingSetWaitMs } = this.#parts;
    const { mayHold, timeoutMs } = item.value.request;
    item.value.overdue = true;
    item.deadlineMs = nowMs + (mayHold ? Math.max(timeoutMs, workingSetWaitMs) : timeoutMs / 2);
    queue.pushAgain(item);
  }

  /** Returns the time after which a request is overdue: short for a caller who receives no keep-alives. */
  #waitMsOf({ request: { mayHold, timeoutMs } }: Value): number {
    const { workingSetWaitMs } = this.#parts;
    return mayHold ? workingSetWaitMs : Math.min(workingSetWaitMs, timeoutMs / 2);
  }
}
