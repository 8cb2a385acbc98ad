import type { Permit } from "../queue/circuit-breaker.ts";
import { HeldRoom } from "../queue/held-room.ts";
import type { Pending, PendingQueue } from "../queue/pending-queue.ts";
import type { PlaceRequest } from "./place-search.ts";

/** A request that may be held while a cluster has no endpoint. */
export type Holdable = {
  /** What asks for a place. */
  request: PlaceRequest;
  /** The room of the request while it is held; undefined while it waits as usual. */
  held: Permit | undefined;
  /** The moment until which the request is held at most, once it has been held, in monotonic milliseconds. */
  holdUntilMs: number | undefined;
};

/** What requests are held by. */
export type OutageHoldParts<Value extends Holdable> = {
  /** How many requests are held, and for how long. */
  readonly settings: {
    /** The most requests that are held at once. */
    readonly maxHeldRequests: number;
    /** The longest time for which a request is held, in milliseconds. */
    readonly noEndpointHoldMs: number;
  };
  /** The queue in which those wait that are held, as all others do. */
  readonly queue: Pick<PendingQueue<Value>, "order" | "reschedule">;
  /** Returns whether the cluster may have an endpoint again. */
  readonly mayHaveEndpoints: () => boolean;
};

/**
 * Knows since when a cluster has no endpoint, and holds its requests meanwhile: they wait in the cluster's queue, longer
 * than they would for an endpoint that is there, and within bounds of their own.
 */
export class OutageHold<Value extends Holdable> {
  readonly #parts: OutageHoldParts<Value>;
  readonly #room: HeldRoom;
  #sinceMs: number | undefined;

  /** Begins with endpoints, and holds nothing. */
  constructor(parts: OutageHoldParts<Value>) {
    this.#parts = parts;
    this.#room = new HeldRoom(parts.settings.maxHeldRequests);
  }

  /** The room of the requests that are held, for statistics. */
  get room(): Pick<HeldRoom, "requests" | "bytes"> {
    return this.#room;
  }

  /** The moment since which no endpoint is usable, in monotonic milliseconds; undefined while one is. */
  get sinceMs(): number | undefined {
    return this.#sinceMs;
  }

  /** Notes how many endpoints are usable at `nowMs`: an outage begins without any, and ends with the first. */
  note(usable: number, nowMs: number): void {
    if (usable > 0 && this.#sinceMs !== undefined) {
      this.#sinceMs = undefined;
      this.#resume(nowMs);
    } else if (usable === 0 && this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      // Who finds no room, or may not be held, has the time left that a wait may take.
      for (const item of this.#parts.queue.order()) this.hold(item, nowMs);
    }
  }

  /** Holds a request from now on, as no endpoint is there. Returns false where it may not be, or finds no room. */
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
    // An endpoint that comes back after an outage may do better than before.
    value.request = { ...value.request, tried: new Set() };
    return true;
  }

  /**
   * Lets those wait in the queue who were held, now that an endpoint is there: for as long again as they may be held, as
   * what has gathered in an outage takes its time.
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
