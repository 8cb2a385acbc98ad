import { durationMs } from "../../../deploy/runtime/time/proto-duration.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { SessionService } from "./session-service.ts";

/** What is known of a turn when it gets its place. */
export type ServedTurnParts = {
  /** Counts what sessions were served. */
  readonly service: SessionService;
  /** The session that the turn belongs to. */
  readonly session: string;
  /** The time that the endpoint is expected to be busy with others' prompts before, in milliseconds. */
  readonly aheadMs: number;
  /** The time that the prefill is expected to take, in milliseconds. */
  readonly prefillMs: number;
  /** Monotonic milliseconds at which the turn came. */
  readonly sinceMs: number;
  /** Monotonic milliseconds at which the turn gets its place. */
  readonly beganMs: number;
};

/**
 * Counts to its session what a turn is served on its node, and for how long it wanted to be: at once the prefill that is
 * expected, as more turns of the session may be picked meanwhile, and at the end the rest of what it was. Its wait in the
 * node's queue is no service: the node tells how long that was, and where it does not, what was expected counts.
 */
export class ServedTurn {
  readonly #parts: ServedTurnParts;
  #queueMs: number;

  /** Begins, with the prefill that is expected. */
  constructor(parts: ServedTurnParts) {
    const { service, session, prefillMs, beganMs, aheadMs } = parts;
    this.#parts = parts;
    this.#queueMs = aheadMs;
    service.serve(session, prefillMs / 1_000, beganMs);
  }

  /** Takes note of what the node says of the time in its queue. */
  see(events: readonly Event[]): void {
    for (const { kind } of events)
      if (kind?.$case === "finished" && kind.value.timings?.queue) this.#queueMs = durationMs(kind.value.timings.queue);
  }

  /** Counts what the turn was served, and for how long it wanted to be, by the monotonic time `nowMs`, at which it is over. */
  end(nowMs: number): void {
    const { service, session, prefillMs, beganMs, sinceMs } = this.#parts;
    const servedMs = Math.max(0, nowMs - beganMs - this.#queueMs);
    service.count(session, { served: (servedMs - prefillMs) / 1_000, wanted: (nowMs - sinceMs) / 1_000 }, nowMs);
  }
}
