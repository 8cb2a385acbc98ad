import type { Pending, PendingQueue } from "../queue/pending-queue.ts";
import type { PlaceRequest } from "./place-search.ts";
import type { PrefillWait } from "./prefill-turns.ts";

/** The rank of a request that waits for a place alone: higher ranks are served first. */
export const FIRST_RANK = 0;

/**
 * The times of its own prefill by which a request comes later than it arrived, among those of its tenant that wait for
 * their prefill: so that short ones do not wait for long behind long ones.
 */
const OWN_PREFILL_WEIGHT = 8;

/** A request that may have to wait for its prefill. */
export type PrefillWaiter = {
  /** What asks for a place. */
  readonly request: Pick<PlaceRequest, "route" | "timeoutMs" | "mayHold">;
  /** What the request waits for, where that is the prefill or the place of an endpoint, not any place. */
  wait: PrefillWait | undefined;
  /** Whether the request has waited for that for as long as it may. */
  overdue: boolean;
};

/** What waits are ordered by. */
export type PrefillWaitsParts<Value extends PrefillWaiter> = {
  /** The queue in which they wait. */
  readonly queue: Pick<PendingQueue<Value>, "reschedule" | "rerank" | "pushAgain">;
  /** The time after which a request that waits for its prefill is overdue, in milliseconds. */
  readonly workingSetWaitMs: number;
};

/** Gives the requests that wait for their prefill their time and their rank in a cluster's queue. */
export class PrefillWaits<Value extends PrefillWaiter> {
  readonly #parts: PrefillWaitsParts<Value>;
  #count = 0;

  /** Begins with nobody who waits. */
  constructor(parts: PrefillWaitsParts<Value>) {
    this.#parts = parts;
  }

  /** The number of requests that wait for their prefill, not for a place alone. */
  get count(): number {
    return this.#count;
  }

  /** Has a request that waits, or begins to, wait for its prefill; for a place alone where `wait` is undefined. */
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
   * Lets a request that has waited for its prefill for as long as it may, and that the queue has let go of, take any
   * endpoint's turn. In its row it is due now, and keeps its place: only turns that were due before it come first.
   */
  beOverdue(item: Pending<Value>, nowMs: number): void {
    const { queue, workingSetWaitMs } = this.#parts;
    const { mayHold, timeoutMs } = item.value.request;
    item.value.overdue = true;
    item.deadlineMs = nowMs + (mayHold ? Math.max(timeoutMs, workingSetWaitMs) : timeoutMs / 2);
    queue.pushAgain(item);
  }

  /** Returns the time after which a request is overdue: of a caller who is shown no signs of life the patience is short. */
  #waitMsOf({ request: { mayHold, timeoutMs } }: Value): number {
    const { workingSetWaitMs } = this.#parts;
    return mayHold ? workingSetWaitMs : Math.min(workingSetWaitMs, timeoutMs / 2);
  }
}
