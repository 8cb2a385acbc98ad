import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type Finished, FinishReason, type Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Grant } from "../../limits/grant.ts";
import {
  costOf,
  type Detail,
  END_REASONS,
  type EndReason,
  OUTCOMES,
  type RequestCost,
  type RequestOutcome,
} from "../../outcome.ts";
import type { RouteSpec } from "../../routes.ts";
import type { AttemptTrace, CallRecord } from "../../upstream/call/attempt.ts";
import type { NotKept } from "../../upstream/continuation/continuation-room.ts";
import type { CacheNote } from "../../upstream/load-balancing/cache-reasons.ts";
import type { CallHeaders } from "../../upstream/wire/generate-wire.ts";
import { newRequestId } from "./random-id.ts";
import { type TraceContext, traceHeaders } from "./trace-context.ts";
import { TracedTries, type TracedTry } from "./traced-tries.ts";

/** Labels of a route in logs and statistics. */
export type RouteLabels = {
  /** Pattern of the path, never the path itself; `unknown` without a route. */
  readonly route: string;
  /** Name of the route's format, or `none`. */
  readonly format: string;
  /** Operation of the route, `gen_ai.operation.name` in statistics; `none` without a route. */
  readonly operation: string;
};

const UNKNOWN_ROUTE: RouteLabels = { route: "unknown", format: "none", operation: "none" };

/** Returns the labels of a route; undefined stands for an unknown path. */
export function routeLabels(spec: RouteSpec | undefined): RouteLabels {
  if (!spec) return UNKNOWN_ROUTE;
  return { route: spec.path, format: spec.format?.name ?? "none", operation: spec.operation };
}

/** Times of a request, in milliseconds with fractions; undefined until the request gets there. */
export type RequestTimes = {
  /** From arrival to dispatch, after all checks. */
  readonly sentMs: number | undefined;
  /** From dispatch to acceptance by an engine: queues of gateway and engine, and failed attempts. */
  readonly queueMs: number | undefined;
  /** From the latest call to its acceptance by the engine. */
  readonly acceptMs: number | undefined;
  /** From arrival to the first delta. */
  readonly firstDeltaMs: number | undefined;
  /** From arrival to the engine's last event. */
  readonly finishedMs: number | undefined;
  /** Longest time between two writes of deltas; undefined before the second write, and for an unstreamed answer. */
  readonly maxGapMs: number | undefined;
  /** Time for which the engine stream was paused because of a slow client. */
  readonly backpressureMs: number | undefined;
};

/** The final state of a request, from which its access log line, statistics and spans are made. */
export type ClosedRequest = RequestTimes & {
  readonly requestId: string;
  /** Arrival, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /** From arrival to the end, in milliseconds. */
  readonly totalMs: number;
  readonly labels: RouteLabels;
  readonly trace: TraceContext;
  /** The sent status; 0 if none was sent, as in Envoy. */
  readonly code: number;
  readonly outcome: RequestOutcome;
  /** Why the request failed; undefined if it succeeded. */
  readonly detail: Detail | undefined;
  /** Why the answer ended; undefined if the request has no answer. */
  readonly endReason: EndReason | undefined;
  /** Undefined without a valid key. */
  readonly principal: Principal | undefined;
  /** 0 if the body was not read. */
  readonly bodyBytes: number;
  /** Catalog id; undefined if the body was not parsed. */
  readonly model: string | undefined;
  /** Whether the body asks for an event stream; undefined if it was not parsed. */
  readonly stream: boolean | undefined;
  /** Calls to engines. */
  readonly attempts: number;
  /** Calls that continued an answer of another engine. */
  readonly continuations: number;
  /** Why no other engine could have continued the answer; undefined if one could, or none was asked. */
  readonly notKept: NotKept | undefined;
  /** Whether the request was admitted only after the longest wait for its prefill. */
  readonly overdue: boolean;
  /** Endpoint of the last call. */
  readonly endpoint: string | undefined;
  /** Generate calls with spans; empty if traces are not exported. */
  readonly tries: readonly TracedTry[];
  /** Why the engine ended the answer; undefined if it was not completed. */
  readonly finishReason: FinishReason | undefined;
  /** Tokens as counted by the engine; undefined if the answer was not completed. */
  readonly usage: Usage | undefined;
  /** Cached tokens at the endpoint, and the reason for misses; undefined if the engine did not report them. */
  readonly cache: CacheNote | undefined;
};

export type RequestRecordOptions = {
  readonly labels: RouteLabels;
  /** A new trace: headers of an unauthenticated caller must not decide which spans are recorded, or where. */
  readonly trace: TraceContext;
  /** Returns the caller's trace context, once its key is valid. Default: the new trace. */
  readonly callerTrace?: () => TraceContext;
  readonly clock: Clock;
  /** Whether calls to engines get spans. */
  readonly traced: boolean;
};

/**
 * Records the events of one request; the counterpart of Envoy's `StreamInfo`. Each component reports an event with one
 * of the methods below. No fact can be set: the first of several failures gives the reason. It holds only numbers and
 * names of the service, and no text of a request.
 */
export class RequestRecord implements CallRecord {
  /** Generated here: a caller cannot choose it. */
  readonly requestId = newRequestId();
  readonly labels: RouteLabels;
  readonly #callerTrace: (() => TraceContext) | undefined;
  readonly #clock: Clock;
  readonly #startedMs: number;
  #trace: TraceContext;
  #tries: TracedTries | undefined;
  #principal: Principal | undefined;
  #grant: Grant | undefined;
  #bodyBytes = 0;
  #model: string | undefined;
  #stream: boolean | undefined;
  #attempts = 0;
  #continuations = 0;
  #notKept: NotKept | undefined;
  #overdue = false;
  #endpoint: string | undefined;
  #callSentMs: number | undefined;
  #failedTries: Set<Detail> | undefined;
  #detail: Detail | undefined;
  #pastCode: number | undefined;
  #endReason: EndReason | undefined;
  #finished: Finished | undefined;
  #sentMs: number | undefined;
  #queueMs: number | undefined;
  #acceptMs: number | undefined;
  #firstDeltaMs: number | undefined;
  #finishedMs: number | undefined;
  #maxGapMs: number | undefined;
  #cache: CacheNote | undefined;
  #pausedAtMs: number | undefined;
  #backpressureMs: number | undefined;

  constructor({ labels, trace, callerTrace, clock, traced }: RequestRecordOptions) {
    this.labels = labels;
    this.#trace = trace;
    this.#callerTrace = callerTrace;
    this.#clock = clock;
    this.#startedMs = clock.nowMs();
    this.#tries = traced ? new TracedTries(trace, clock) : undefined;
  }

  /** The new trace, or the caller's once its key is valid. */
  get trace(): TraceContext {
    return this.#trace;
  }

  /** Undefined until the key was found. */
  get principal(): Principal | undefined {
    return this.#principal;
  }

  /** Charges to the key; undefined until its limits were applied. */
  get grant(): Grant | undefined {
    return this.#grant;
  }

  /** 0 until the body was read. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** Catalog id; undefined until the body was parsed. */
  get model(): string | undefined {
    return this.#model;
  }

  /** Token of the first failure, if any. */
  get detail(): Detail | undefined {
    return this.#detail;
  }

  /** Cost of the completed request for its key: `work` without a failure. */
  get cost(): RequestCost {
    return this.#detail ? costOf([...(this.#failedTries ?? []), this.#detail]) : "work";
  }

  /** Why the answer ended; undefined while it runs, and if the request has no answer. */
  get endReason(): EndReason | undefined {
    return this.#endReason;
  }

  /** Tokens as counted by the engine; undefined until the answer is complete. */
  get usage(): Usage | undefined {
    return this.#finished?.usage;
  }

  /** Endpoint of the last call, if any. */
  get endpoint(): string | undefined {
    return this.#endpoint;
  }

  /** Milliseconds from arrival to the first delta; undefined until then. */
  get firstDeltaMs(): number | undefined {
    return this.#firstDeltaMs;
  }

  /** The key is valid: the caller's trace is used from here on. */
  authenticated(principal: Principal): void {
    this.#principal = principal;
    if (!this.#callerTrace) return;
    this.#trace = this.#callerTrace();
    this.#tries &&= new TracedTries(this.#trace, this.#clock);
  }

  /** The limits of the key were applied. */
  charged(grant: Grant): void {
    this.#grant = grant;
  }

  /** The whole body has arrived. */
  bodyRead(bytes: number): void {
    this.#bodyBytes = bytes;
  }

  /** The body was parsed. `stream` is undefined for requests whose answer is never an event stream. */
  prepared(model: string, stream: boolean | undefined): void {
    this.#model = model;
    this.#stream = stream;
  }

  /** The checked request was dispatched. */
  sent(): void {
    this.#sentMs = this.#sinceStart();
  }

  /**
   * A Generate call was sent to the endpoint at `address`; `continuedTokens` is the number of tokens of the answer that
   * it continues, if any. Returns the trace of that call.
   */
  generateSent(address: string, continuedTokens?: number): AttemptTrace {
    this.#called(address);
    if (continuedTokens !== undefined) this.#continuations += 1;
    return this.#tries?.begin(address, continuedTokens) ?? { headers: traceHeaders(this.#trace), ended() {} };
  }

  /** A CountTokens call was sent to the endpoint at `address`. Returns its headers. */
  countSent(address: string): CallHeaders {
    this.#called(address);
    return traceHeaders(this.#trace);
  }

  /** No other engine could continue the answer, for the reason `why`. */
  notKept(why: NotKept): void {
    this.#notKept = why;
  }

  /** The request was admitted only after the longest wait for its prefill. */
  overdue(): void {
    this.#overdue = true;
  }

  /** Cached tokens at the endpoint, and the reason for misses; undefined until an engine has reported them. */
  get cache(): CacheNote | undefined {
    return this.#cache;
  }

  /** Sets the cached tokens at the endpoint of the last call; of several attempts the last one counts. */
  cached(note: CacheNote): void {
    this.#cache = note;
  }

  /** A call to an engine failed, with the token `detail`; a retry may follow. */
  tryFailed(detail: Detail): void {
    this.#failedTries ??= new Set();
    this.#failedTries.add(detail);
  }

  /** An engine accepted the request; repeated by a retry. */
  started(): void {
    const nowMs = this.#clock.nowMs();
    this.#queueMs = nowMs - this.#startedMs - (this.#sentMs ?? 0);
    this.#acceptMs = this.#callSentMs === undefined ? undefined : nowMs - this.#callSentMs;
  }

  /** A delta arrived from the engine; runs for every delta. Returns whether it was the first one. */
  delta(): boolean {
    if (this.#firstDeltaMs !== undefined) return false;
    this.#firstDeltaMs = this.#sinceStart();
    return true;
  }

  /** The engine completed its answer; repeated if a folded answer is repeated. */
  finished(finished: Finished): void {
    this.#finished = finished;
    this.#finishedMs = this.#sinceStart();
    const { reason } = finished;
    const cut = reason === FinishReason.MAX_OUTPUT_TOKENS || reason === FinishReason.CONTEXT_WINDOW;
    this.#endReason = cut ? "length" : "complete";
  }

  /** Deltas were written `gapMs` milliseconds after the previous ones; runs for every delta. */
  wrote(gapMs: number): void {
    if (this.#maxGapMs === undefined || gapMs > this.#maxGapMs) this.#maxGapMs = gapMs;
  }

  /** The engine stream was paused for the client. */
  paused(): void {
    this.#pausedAtMs = this.#clock.nowMs();
  }

  /** The engine stream was resumed. */
  resumed(): void {
    if (this.#pausedAtMs === undefined) return;
    this.#backpressureMs = (this.#backpressureMs ?? 0) + this.#clock.nowMs() - this.#pausedAtMs;
    this.#pausedAtMs = undefined;
  }

  /** The client has read no byte of its answer for too long, and is disconnected. */
  readerStalled(): void {
    this.#endReason = "slow_reader";
  }

  /** The request is or will be answered with an error. The first of several tokens counts. */
  refused(detail: Detail): void {
    this.#detail ??= detail;
  }

  /** The request was answered past its reply, with the status `code`, because it could not be read to its end. */
  answeredPast(code: number, detail: Detail): void {
    this.#pastCode = code;
    this.refused(detail);
  }

  /** A running answer failed. The first reason counts, which may be its client. */
  failed(detail: Detail, clientLeft: boolean): void {
    this.#detail ??= detail;
    this.#endReason ??= clientLeft ? "client_closed" : (OUTCOMES[detail].end ?? "error");
  }

  /**
   * The reply or its connection has ended; returns the final state of the request. `replyCode` is the status of the
   * reply, 0 for none; `whole` is true if the reply was written to its end.
   */
  closed(replyCode: number, whole: boolean): ClosedRequest {
    const code = this.#pastCode ?? replyCode;
    // A refusal of an unread body is complete before it ends. Otherwise the route learns of the closed connection only
    // now.
    if (!whole && code < 400 && this.#endReason === undefined) this.failed("downstream_remote_disconnect", true);
    return {
      requestId: this.requestId,
      startedMs: this.#startedMs,
      totalMs: this.#sinceStart(),
      labels: this.labels,
      trace: this.#trace,
      code,
      outcome: requestOutcome(code, this.#endReason),
      detail: this.#detail,
      endReason: this.#endReason,
      principal: this.#principal,
      bodyBytes: this.#bodyBytes,
      model: this.#model,
      stream: this.#stream,
      attempts: this.#attempts,
      continuations: this.#continuations,
      notKept: this.#notKept,
      overdue: this.#overdue,
      endpoint: this.#endpoint,
      tries: this.#tries?.all ?? [],
      finishReason: this.#finished?.reason,
      usage: this.#finished?.usage,
      cache: this.#cache,
      sentMs: this.#sentMs,
      queueMs: this.#queueMs,
      acceptMs: this.#acceptMs,
      firstDeltaMs: this.#firstDeltaMs,
      finishedMs: this.#finishedMs,
      maxGapMs: this.#maxGapMs,
      backpressureMs: this.#backpressureMs,
    };
  }

  #called(address: string): void {
    this.#attempts += 1;
    this.#endpoint = address;
    this.#callSentMs = this.#clock.nowMs();
  }

  #sinceStart(): number {
    return this.#clock.nowMs() - this.#startedMs;
  }
}

declare module "fastify" {
  interface FastifyRequest {
    record: RequestRecord;
  }
}

/**
 * Returns the outcome of a request as one word. A stream that failed after its status line has status 200: the end
 * reason decides then.
 */
export function requestOutcome(code: number, endReason: EndReason | undefined): RequestOutcome {
  if (code === 0) return "client_closed";
  if (code === 429) return "rate_limited";
  if (code >= 500) return "server_error";
  if (code >= 400) return "client_error";
  return endReason === undefined ? "ok" : END_REASONS[endReason].outcome;
}
