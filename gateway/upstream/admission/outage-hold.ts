import type { Permit } from "../queue/circuit-breaker.ts";
import { HeldRoom } from "../queue/held-room.ts";
import type { Pending, PendingQueue } from "../queue/pending-queue.ts";
import type { PlaceRequest } from "./place-search.ts";

/** A request that may be held while a cluster has no endpoint. */
export type Holdable = {
  request: PlaceRequest;
  /** The permit of the request while it is held; undefined while it waits as usual. */
  held: Permit | undefined;
  /** The monotonic milliseconds at which the hold ends at the latest; undefined for a request never held. */
  holdUntilMs: number | undefined;
};

export type OutageHoldParts<Value extends Holdable> = {
  /** The limits on held requests. */
  readonly settings: {
    /** The most requests held at once. */
    readonly maxHeldRequests: number;
    /** The longest hold of a request, in milliseconds. */
    readonly noEndpointHoldMs: number;
  };
  /** The cluster's queue, in which held requests wait like all others. */
  readonly queue: Pick<PendingQueue<Value>, "order" | "reschedule">;
  /** Returns whether the cluster may have an endpoint again. */
  readonly mayHaveEndpoints: () => boolean;
};

/**
 * Tracks the outage of a cluster, and holds its requests meanwhile: they wait in the cluster's queue, longer than they
 * would for a present endpoint, and within limits of their own.
 */
export class OutageHold<Value extends Holdable> {
  readonly #parts: OutageHoldParts<Value>;
  readonly #room: HeldRoom;
  #sinceMs: number | undefined;

  /** Begins without an outage. */
  constructor(parts: OutageHoldParts<Value>) {
    this.#parts = parts;
    this.#room = new HeldRoom(parts.settings.maxHeldRequests);
  }

  /** The held requests, for statistics. */
  get room(): Pick<HeldRoom, "requests" | "bytes"> {
    return this.#room;
  }

  /** The monotonic milliseconds at which the last usable endpoint was lost; undefined while one is usable. */
  get sinceMs(): number | undefined {
    return this.#sinceMs;
  }

  /** Records the number of usable endpoints at `nowMs`: an outage begins at 0, and ends with the first endpoint. */
  note(usable: number, nowMs: number): void {
    if (usable > 0 && this.#sinceMs !== undefined) {
      this.#sinceMs = undefined;
      this.#resume(nowMs);
    } else if (usable === 0 && this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      // A request without room, or that may not be held, keeps its deadline.
      for (const item of this.#parts.queue.order()) this.hold(item, nowMs);
    }
  }

  /** Holds a request during the outage. Returns false where it may not be held, or there is no room. */
  hold(item: Pending<Value>, nowMs: number): boolean {
    const { value } = item;
    const { tenant, bytes, mayHold } = value.request;
    const { settings, queue, mayHaveEndpoints } = this.#parts;
    const holdUntilMs = value.holdUntilMs ?? nowMs + settings.noEndpointHoldMs;
    if (!mayHold || !mayHaveEndpoints() || holdUntilMs <= nowMs) return false;
    value.held = this.#room.tryHold(tenant, bytes);
    if (!value.held) return false;
    value.holdUntilMs = holdUntilMs;
    item.hasFixedDeadline = true;
    queue.reschedule(item, holdUntilMs);
    // An endpoint that returns after an outage may succeed where it failed before.
    value.request = { ...value.request, tried: new Set() };
    return true;
  }

  /**
   * Makes held requests wait as usual once an endpoint is present. Each may wait for another hold time, as the backlog
   * of an outage takes long to serve.
   */
  #resume(nowMs: number): void {
    const { settings, queue } = this.#parts;
    for (const item of queue.order()) {
      const { value } = item;
      if (!value.held) continue;
      value.held.release();
      value.held = undefined;
      queue.reschedule(item, nowMs + Math.max(settings.noEndpointHoldMs, value.request.timeoutMs));
    }
  }
}
