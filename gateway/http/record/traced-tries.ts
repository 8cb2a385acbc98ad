import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { AttemptEnd, AttemptTrace } from "../../upstream/call/call-record.ts";
import { type TraceContext, traceHeaders, underSpan } from "./trace-context.ts";

/** A call to an engine, as its span will tell of it. */
export type TracedTry = {
  /** The address of the endpoint that was called. */
  readonly endpoint: string;
  /** The id of the span of the call, 16 hex digits. */
  readonly spanId: string;
  /** The number of tokens of an answer that the call goes on from; undefined where it begins one. */
  readonly continuedTokens: number | undefined;
  /** The moment at which the call began, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /**
   * The moment at which the call ended, in milliseconds of the monotonic clock, and how it ended; undefined while it
   * runs.
   */
  end: { readonly atMs: number; readonly how: AttemptEnd } | undefined;
};

/**
 * Holds the calls of one request, in their order. Each is a span of its own, which the engine is told as its parent.
 */
export class TracedTries {
  readonly #trace: TraceContext;
  readonly #clock: Clock;
  readonly #all: TracedTry[] = [];

  constructor(trace: TraceContext, clock: Clock) {
    this.#trace = trace;
    this.#clock = clock;
  }

  /** All calls so far, in their order. */
  get all(): readonly TracedTry[] {
    return this.#all;
  }

  /**
   * Begins a call to the endpoint, and returns what its attempt traces. `continuedTokens` is how many tokens of an answer
   * it goes on from; undefined, the default, where it begins one.
   */
  begin(endpoint: string, continuedTokens?: number): AttemptTrace {
    const { spanId, ...trace } = underSpan(this.#trace);
    const startedMs = this.#clock.nowMs();
    const tried: TracedTry = { endpoint, spanId, continuedTokens, startedMs, end: undefined };
    this.#all.push(tried);
    return {
      headers: traceHeaders({ spanId, ...trace }),
      ended: (how) => {
        tried.end = { atMs: this.#clock.nowMs(), how };
      },
    };
  }
}
