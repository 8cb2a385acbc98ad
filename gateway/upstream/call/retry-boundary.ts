import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Deltas } from "./delta-reader.ts";
import type { Flow } from "./generate-call.ts";

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
  readonly #sink: EventSink;
  readonly #onCommit: () => void;
  #held: Event[] | undefined = [];

  /** `onCommit` is called at most once, before the first event is passed on that cannot be retracted. */
  constructor(sink: EventSink, onCommit: () => void) {
    this.#sink = sink;
    this.#onCommit = onCommit;
  }

  get committed(): boolean {
    return this.#held === undefined && !this.#sink.restart;
  }

  /** Whether deltas may be passed to `passDeltas`: others have preceded them, and the sink takes them. */
  get takesDeltas(): boolean {
    return this.#held === undefined && this.#sink.deltas !== undefined;
  }

  passDeltas(deltas: Deltas, flow: Flow): void {
    this.#sink.deltas?.(deltas, flow);
  }

  /** Passes on events that need no retraction; a `started` begins a new attempt. */
  pass(events: readonly Event[], flow: Flow): void {
    if (this.committed) {
      this.#sink.events(events, flow);
      return;
    }
    if (events.some((event) => event.kind?.$case === "started")) this.#begin();
    if (this.#held === undefined) {
      this.#sink.events(events, flow);
    } else if (events.some((event) => event.kind?.$case === "blockDelta" || event.kind?.$case === "finished")) {
      const all = [...this.#held, ...events];
      this.#held = undefined;
      if (this.committed) this.#onCommit();
      this.#sink.events(all, flow);
    } else {
      const isEarly = (event: Event) => event.kind?.$case === "started" || event.kind?.$case === "progress";
      this.#held.push(...events.filter((event) => !isEarly(event)));
      const early = events.filter(isEarly);
      if (early.length > 0) this.#sink.events(early, flow);
    }
  }

  #begin(): void {
    this.#held = [];
    this.#sink.restart?.();
  }
}
