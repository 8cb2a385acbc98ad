import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { AttemptEnd, AttemptTrace } from "../../upstream/call/call-record.ts";
import { type TraceContext, traceHeaders, underSpan } from "./trace-context.ts";

/** A call to an engine, as its span will tell of it. Times are the clock's, in milliseconds. */
export type TracedTry = {
  readonly endpoint: string;
  readonly spanId: string;
  readonly startedMs: number;
  /** Undefined while it runs. */
  end: { readonly atMs: number; readonly how: AttemptEnd } | undefined;
};

/** The calls of one request, in their order. Each is a span of its own, which the engine is told as its parent. */
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

  begin(endpoint: string): AttemptTrace {
    const trace = underSpan(this.#trace);
    const tried: TracedTry = { endpoint, spanId: trace.spanId, startedMs: this.#clock.nowMs(), end: undefined };
    this.#all.push(tried);
    return {
      headers: traceHeaders(trace),
      ended: (how) => {
        tried.end = { atMs: this.#clock.nowMs(), how };
      },
    };
  }
}
