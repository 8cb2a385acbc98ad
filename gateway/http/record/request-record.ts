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
import type { AttemptTrace, CallRecord } from "../../upstream/call/call-record.ts";
import type { NotKept } from "../../upstream/continuation/continuation-room.ts";
import type { CacheNote } from "../../upstream/prefixes/cache-note.ts";
import type { CallHeaders } from "../../upstream/wire/generate-wire.ts";
import { newRequestId } from "./random-id.ts";
import { type TraceContext, traceHeaders } from "./trace-context.ts";
import { TracedTries, type TracedTry } from "./traced-tries.ts";

/** The names by which log and statistics call a route. */
export type RouteLabels = {
  /** The pattern of the path, never the path itself; `unknown` where no route has it. */
  readonly route: string;
  /** The name of the route's format, or `none`. */
  readonly format: string;
  /** The operation of the route, the `gen_ai.operation.name` of its statistics; `none` where no route has the path. */
  readonly operation: string;
};

const UNKNOWN_ROUTE: RouteLabels = { route: "unknown", format: "none", operation: "none" };

/** Returns the labels of requests on a route; undefined stands for paths that no route has. */
export function routeLabels(spec: RouteSpec | undefined): RouteLabels {
  if (!spec) return UNKNOWN_ROUTE;
  return { route: spec.path, format: spec.format?.name ?? "none", operation: spec.operation };
}

/** The times of a request, in milliseconds with fractions. Each is undefined until the request has come that far. */
export type RequestTimes = {
  /** The time from the request's arrival to its being checked and sent on its way to an engine. */
  readonly sentMs: number | undefined;
  /**
   * The time from the checked request to an engine having taken it up: queues of gateway and engine, and failed tries.
   */
  readonly queueMs: number | undefined;
  /** The time from the newest call's being sent to its engine having taken it up. */
  readonly acceptMs: number | undefined;
  /** The time from the request's arrival to its first delta. */
  readonly firstDeltaMs: number | undefined;
  /** The time from the request's arrival to the engine's last event. */
  readonly finishedMs: number | undefined;
  /**
   * The longest time between two writes of deltas; undefined before the second, and where the answer is not streamed.
   */
  readonly maxGapMs: number | undefined;
  /** The time for which the engine was held back because the client read slowly. */
  readonly backpressureMs: number | undefined;
};

/**
 * All that is known of a request when it is over: its line in the access log, its statistics and its spans are made of
 * it.
 */
export type ClosedRequest = RequestTimes & {
  /** The id of the request, as callers and operators know it. */
  readonly requestId: string;
  /** The moment at which the request arrived, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /** The time from the request's arrival to its end, in milliseconds. */
  readonly totalMs: number;
  /** The labels of the route in log and statistics. */
  readonly labels: RouteLabels;
  /** The place of the request in a distributed trace. */
  readonly trace: TraceContext;
  /** The status that was sent; 0 where none was, as Envoy has it. */
  readonly code: number;
  /** The outcome of the request, in the one word of the statistics. */
  readonly outcome: RequestOutcome;
  /** The token of why the request did not end well; undefined where it did. */
  readonly detail: Detail | undefined;
  /** The reason why the answer ended; undefined where there was to be none. */
  readonly endReason: EndReason | undefined;
  /** The owner of the key; undefined where no valid key was presented. */
  readonly principal: Principal | undefined;
  /** The size of the body; 0 where it was not read. */
  readonly bodyBytes: number;
  /** The model that the body names; undefined where the body was not understood. */
  readonly model: string | undefined;
  /** Whether the body asks for an event stream; undefined where it was not understood. */
  readonly stream: boolean | undefined;
  /** The number of calls to engines that were made for the request. */
  readonly attempts: number;
  /** The number of these calls that went on with an answer which another engine had begun. */
  readonly continuations: number;
  /** The reason why no other engine could have gone on with the answer; undefined where one could, or none was asked. */
  readonly notKept: NotKept | undefined;
  /** Whether the request got its place only after it had waited for its prefill for as long as it may. */
  readonly overdue: boolean;
  /** The address of the endpoint that was called last. */
  readonly endpoint: string | undefined;
  /** The Generate calls as their spans will tell of them; empty where no traces are exported. */
  readonly tries: readonly TracedTry[];
  /** The reason why the engine ended the answer; undefined where the answer did not come to its end. */
  readonly finishReason: FinishReason | undefined;
  /** The tokens that the engine counted; undefined where the answer did not come to its end. */
  readonly usage: Usage | undefined;
  /** What was in the cache of the endpoint, and why not more; undefined where no engine told. */
  readonly cache: CacheNote | undefined;
};

/** What the record of a request begins with. */
export type RequestRecordOptions = {
  /** The labels of the route in log and statistics. */
  readonly labels: RouteLabels;
  /** The place of the request in a trace of its own: a stranger's headers do not decide what is recorded, nor where. */
  readonly trace: TraceContext;
  /** Gives the place in the trace that the caller names, once its key is known. Default: the trace of its own. */
  readonly callerTrace?: () => TraceContext;
  /** The clock by which the times of the request are measured. */
  readonly clock: Clock;
  /** Whether the calls to engines are followed for spans. */
  readonly traced: boolean;
};

/**
 * Records what happens to one request, as it happens; the counterpart of Envoy's `StreamInfo`. Whoever sees something
 * happen says so by one of the events below. Nobody sets a fact: of several failures the first one names the reason.
 * Numbers and names of ours only: no text of a request ever gets in here.
 */
export class RequestRecord implements CallRecord {
  /** The id of the request, made for it here: a caller cannot choose one. */
  readonly requestId = newRequestId();
  /** The labels of the route in log and statistics. */
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

  /** The place of the request in a distributed trace: its own one, and the caller's once its key is known. */
  get trace(): TraceContext {
    return this.#trace;
  }

  /** The owner of the key; undefined until the key was found. */
  get principal(): Principal | undefined {
    return this.#principal;
  }

  /** The charges to the key; undefined until the request was held against its limits. */
  get grant(): Grant | undefined {
    return this.#grant;
  }

  /** The size of the body; 0 until it was read. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** The catalog id of the model that the body names; undefined until the body was understood. */
  get model(): string | undefined {
    return this.#model;
  }

  /** The token of the first failure; undefined while there is none. */
  get detail(): Detail | undefined {
    return this.#detail;
  }

  /** What the request costs its key, when it is over: `work` where nothing has failed. */
  get cost(): RequestCost {
    return this.#detail ? costOf([...(this.#failedTries ?? []), this.#detail]) : "work";
  }

  /** The reason why the answer ended; undefined while it runs, and where there was to be none. */
  get endReason(): EndReason | undefined {
    return this.#endReason;
  }

  /** The tokens that the engine counted; undefined until the answer is complete. */
  get usage(): Usage | undefined {
    return this.#finished?.usage;
  }

  /** The address of the endpoint that was called last; undefined until one was. */
  get endpoint(): string | undefined {
    return this.#endpoint;
  }

  /** The time from the request's arrival to its first delta, in milliseconds; undefined until that came. */
  get firstDeltaMs(): number | undefined {
    return this.#firstDeltaMs;
  }

  /** Notes that the key of the request opens the service: from here on its caller's trace is followed. */
  authenticated(principal: Principal): void {
    this.#principal = principal;
    if (!this.#callerTrace) return;
    this.#trace = this.#callerTrace();
    this.#tries &&= new TracedTries(this.#trace, this.#clock);
  }

  /** Notes that the request was held against the limits of its key. */
  charged(grant: Grant): void {
    this.#grant = grant;
  }

  /** Notes that the whole body has arrived, of so many bytes. */
  bodyRead(bytes: number): void {
    this.#bodyBytes = bytes;
  }

  /** Notes that the body is understood. `stream` is undefined for requests whose answer is never an event stream. */
  prepared(model: string, stream: boolean | undefined): void {
    this.#model = model;
    this.#stream = stream;
  }

  /** Notes that the checked request is on its way to an engine. */
  sent(): void {
    this.#sentMs = this.#sinceStart();
  }

  /**
   * Notes that a Generate call is on its way to the endpoint at `address`; `continuedTokens` is how many tokens of an
   * answer it goes on from, where it does. Returns what follows that call.
   */
  generateSent(address: string, continuedTokens?: number): AttemptTrace {
    this.#called(address);
    if (continuedTokens !== undefined) this.#continuations += 1;
    return this.#tries?.begin(address, continuedTokens) ?? { headers: traceHeaders(this.#trace), ended() {} };
  }

  /**
   * Notes that a CountTokens call is on its way to the endpoint at `address`. Returns the headers that go along with
   * it.
   */
  countSent(address: string): CallHeaders {
    this.#called(address);
    return traceHeaders(this.#trace);
  }

  /** Notes that no other engine could go on with the answer, for the reason `why`. */
  notKept(why: NotKept): void {
    this.#notKept = why;
  }

  /** Notes that the request got its place only after it had waited for its prefill for as long as it may. */
  overdue(): void {
    this.#overdue = true;
  }

  /** What was in the cache of the endpoint, and why not more; undefined until an engine has told. */
  get cache(): CacheNote | undefined {
    return this.#cache;
  }

  /** Notes what was in the cache of the endpoint that was called last; of several tries the last one counts. */
  cached(note: CacheNote): void {
    this.#cache = note;
  }

  /** A call to an engine has failed, with the token `detail`; another one may follow. */
  tryFailed(detail: Detail): void {
    this.#failedTries ??= new Set();
    this.#failedTries.add(detail);
  }

  /** Notes that an engine has taken the request up; this may come again, where a try is repeated. */
  started(): void {
    const nowMs = this.#clock.nowMs();
    this.#queueMs = nowMs - this.#startedMs - (this.#sentMs ?? 0);
    this.#acceptMs = this.#callSentMs === undefined ? undefined : nowMs - this.#callSentMs;
  }

  /** Notes that a delta has come from the engine, on the path of every delta. Returns whether it was the first one. */
  delta(): boolean {
    if (this.#firstDeltaMs !== undefined) return false;
    this.#firstDeltaMs = this.#sinceStart();
    return true;
  }

  /** Notes that the engine has completed its answer; this may come again, where a folded answer is repeated. */
  finished(finished: Finished): void {
    this.#finished = finished;
    this.#finishedMs = this.#sinceStart();
    const { reason } = finished;
    const cut = reason === FinishReason.MAX_OUTPUT_TOKENS || reason === FinishReason.CONTEXT_WINDOW;
    this.#endReason = cut ? "length" : "complete";
  }

  /** Notes that deltas were written `gapMs` milliseconds after the ones before, on the path of every delta. */
  wrote(gapMs: number): void {
    if (this.#maxGapMs === undefined || gapMs > this.#maxGapMs) this.#maxGapMs = gapMs;
  }

  /** Notes that the engine begins to wait for the client. */
  paused(): void {
    this.#pausedAtMs = this.#clock.nowMs();
  }

  /** Notes that the engine waits for the client no more. */
  resumed(): void {
    if (this.#pausedAtMs === undefined) return;
    this.#backpressureMs = (this.#backpressureMs ?? 0) + this.#clock.nowMs() - this.#pausedAtMs;
    this.#pausedAtMs = undefined;
  }

  /** Notes that the client has taken nothing of its answer for too long, and is cut. */
  readerStalled(): void {
    this.#endReason = "slow_reader";
  }

  /** Notes that the request is answered with an error, or will be. Of several tokens the first one stays. */
  refused(detail: Detail): void {
    this.#detail ??= detail;
  }

  /** Notes that the request was answered past its reply, with the status `code`, as it could not be read to its end. */
  answeredPast(code: number, detail: Detail): void {
    this.#pastCode = code;
    this.refused(detail);
  }

  /** Notes that an answer which was under way has failed. The first reason stays, which may be its client. */
  failed(detail: Detail, clientLeft: boolean): void {
    this.#detail ??= detail;
    this.#endReason ??= clientLeft ? "client_closed" : (OUTCOMES[detail].end ?? "error");
  }

  /**
   * Notes that the reply is over or its connection is, and returns all that is known of the request. `replyCode` is the
   * status that the reply was sent with, 0 for none; `whole` says whether the reply was written to its end.
   */
  closed(replyCode: number, whole: boolean): ClosedRequest {
    const code = this.#pastCode ?? replyCode;
    // A refusal of an unread body is complete before it ends. Of anything else that was cut, its route learns only now.
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
 * Returns how a request ended, as one word. A stream that failed half-way was sent 200 all the same: then the end
 * reason decides.
 */
export function requestOutcome(code: number, endReason: EndReason | undefined): RequestOutcome {
  if (code === 0) return "client_closed";
  if (code === 429) return "rate_limited";
  if (code >= 500) return "server_error";
  if (code >= 400) return "client_error";
  return endReason === undefined ? "ok" : END_REASONS[endReason].outcome;
}
