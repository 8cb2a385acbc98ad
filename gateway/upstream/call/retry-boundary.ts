import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Deltas } from "./delta-reader.ts";

/** Flow control of the engine's stream while the client reads slowly. */
export type Flow = {
  /** Stops reading from the engine, and suspends its time limits. */
  pause(): void;
  resume(): void;
};

export type EventSink = {
  events(events: readonly Event[], flow: Flow): void;
  /** Takes deltas, valid only during the call. Default: they come as events. */
  deltas?(deltas: Deltas, flow: Flow): void;
  /** Discards all events so far; only where none has left the gateway. */
  restart?(): void;
};

/**
 * Holds back the events of an attempt that a repeated attempt would have to retract: block starts wait for their first
 * delta. `started` and `progress` pass; encoders ignore a second `started`.
 */
export class RetryBoundary {
  /** Whether events have been passed on that cannot be retracted. Changed by this class only. */
  committed = false;
  /** Whether `passDeltas` may be called: other deltas have preceded, and the sink takes them. Changed here only. */
  takesDeltas = false;
  readonly #sink: EventSink;
  readonly #onCommit: () => void;
  #held: Event[] | undefined = [];

  /** `onCommit` is called at most once, before the first event is passed on that cannot be retracted. */
  constructor(sink: EventSink, onCommit: () => void) {
    this.#sink = sink;
    this.#onCommit = onCommit;
  }

  passDeltas(deltas: Deltas, flow: Flow): void {
    this.#sink.deltas?.(deltas, flow);
  }

  /** Passes on events that need no retraction; a `started` begins a new attempt. */
  pass(events: readonly Event[], flow: Flow): void {
    const sink = this.#sink;
    const early: Event[] = [];
    const late: Event[] = [];
    let commits = false;
    for (const event of this.committed ? [] : events) {
      const kind = event.kind?.$case;
      if (kind === "started") {
        this.#held = [];
        this.takesDeltas = false;
        sink.restart?.();
      }
      (kind === "started" || kind === "progress" ? early : late).push(event);
      if (kind === "blockDelta" || kind === "finished") commits = true;
    }
    const held = this.#held;
    if (held === undefined) sink.events(events, flow);
    else if (!commits) {
      held.push(...late);
      if (early.length > 0) sink.events(early, flow);
    } else {
      this.#held = undefined;
      this.takesDeltas = sink.deltas !== undefined;
      this.committed = sink.restart === undefined;
      if (this.committed) this.#onCommit();
      sink.events([...held, ...events], flow);
    }
  }
}
