import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { AttemptEnd, AttemptTrace } from "../../upstream/call/attempt.ts";
import { type TraceContext, traceHeaders, underSpan } from "./trace-context.ts";

/** A call to an engine, for its span. */
export type TracedTry = {
  /** Address of the endpoint. */
  readonly endpoint: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** Number of tokens of the answer that the call continues; undefined if it begins one. */
  readonly continuedTokens: number | undefined;
  /** Start of the call, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /** End of the call, in milliseconds of the monotonic clock, and its outcome; undefined while it runs. */
  end: { readonly atMs: number; readonly how: AttemptEnd } | undefined;
};

/** The calls of one request, in order. Each has a span, which the engine receives as its parent. */
export class TracedTries {
  readonly #trace: TraceContext;
  readonly #clock: Clock;
  readonly #all: TracedTry[] = [];

  constructor(trace: TraceContext, clock: Clock) {
    this.#trace = trace;
    this.#clock = clock;
  }

  get all(): readonly TracedTry[] {
    return this.#all;
  }

  /**
   * Begins a call to the endpoint, and returns its trace. `continuedTokens` is the number of tokens of the answer that
   * it continues; by default it begins one.
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
