import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Deltas } from "./delta-reader.ts";
import type { Flow } from "./generate-call.ts";

/** Takes the events of one answer, in order, on the path of every delta. */
export type EventSink = {
  /** Takes the next events of the answer; `flow` holds the engine back while the client reads slowly. */
  events(events: readonly Event[], flow: Flow): void;
  /**
   * Takes deltas of the block that is open, behind others of the answer; they are the caller's, and hold for the time of
   * the call. Default: the same deltas come as events.
   */
  deltas?(deltas: Deltas, flow: Flow): void;
  /**
   * Forgets all events so far. A sink has it only where nothing of them has left the gateway; then a try may be
   * repeated to the end.
   */
  restart?(): void;
  /** Notes that the next events come from another endpoint, which goes on with the answer. Default: it makes no difference. */
  wentOn?(): void;
};

/**
 * Passes on nothing of a try that a repeated try would have to take back: block starts wait for their first delta.
 * `started` and `progress` go through; encoders ignore a second `started`.
 */
export class RetryBoundary {
  readonly #sink: EventSink;
  readonly #onCommit: () => void;
  #held: Event[] | undefined = [];

  /**
   * Makes a gate in front of `sink`. `onCommit` is called once, just before something is passed on that cannot be taken
   * back; perhaps never.
   */
  constructor(sink: EventSink, onCommit: () => void) {
    this.#sink = sink;
    this.#onCommit = onCommit;
  }

  /** Whether something has been passed on that cannot be taken back. */
  get committed(): boolean {
    return this.#held === undefined && !this.#sink.restart;
  }

  /** Whether deltas may be handed to `passDeltas`: others have gone before them, and the sink takes them. */
  get takesDeltas(): boolean {
    return this.#held === undefined && this.#sink.deltas !== undefined;
  }

  /** Passes on deltas of the block that is open, where `takesDeltas`. It runs on the path of nearly every delta. */
  passDeltas(deltas: Deltas, flow: Flow): void {
    this.#sink.deltas?.(deltas, flow);
  }

  /**
   * Takes the next events of the try that runs, and passes on what need not be taken back; a `started` begins a new
   * try.
   */
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

  /** Begins a try: what an earlier one left behind is void. */
  #begin(): void {
    this.#held = [];
    this.#sink.restart?.();
  }
}
