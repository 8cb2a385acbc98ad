import type { IncomingHttpHeaders } from "node:http";
import type { PriorityClass } from "../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type Finished, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
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
import type { Tracing } from "../../tracing/tracing.ts";
import type { AttemptEnd, CallRecord } from "../../upstream/call/call-record.ts";
import type { NotKept } from "../../upstream/continuation/continuation-budget.ts";
import type { CacheNote } from "../../upstream/load-balancing/cache-reasons.ts";
import type { CallHeaders } from "../../upstream/wire/generate-wire.ts";
import { randomId, type TraceContext, traceContextOf, traceHeaders, underSpan } from "./trace-context.ts";

export type RouteLabels = {
  /** Pattern of the path, never the path itself; `unknown` without a route. */
  readonly route: string;
  /** Name of the route's format, or `none`. */
  readonly format: string;
  /** Operation of the route, `gen_ai.operation.name` in statistics; `none` without a route. */
  readonly operation: string;
};

export const NO_ROUTE: RouteLabels = { route: "unknown", format: "none", operation: "none" };

export function routeLabels(spec: RouteSpec): RouteLabels {
  return { route: spec.path, format: spec.format?.name ?? "none", operation: spec.operation };
}

/** A Generate call with its span. */
export type TracedAttempt = {
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

type ParsedBody = {
  /** Catalog id. */
  readonly model: string;
  /** Whether it asks for an event stream; undefined where the answer is never one. */
  readonly stream: boolean | undefined;
  /** Sealed parts of the conversation that did not open. */
  readonly unopened: number;
};

/** The facts about a request so far. Times are in milliseconds with fractions, by default from its arrival. */
type Facts = {
  /** A new trace, or the caller's once its key is valid. */
  trace: TraceContext;
  /** Undefined without a valid key. */
  principal: Principal | undefined;
  /** Charges to the key; undefined until its limits were applied. */
  grant: Grant | undefined;
  /** 0 until the body was read. */
  bodyBytes: number;
  parsed: ParsedBody | undefined;
  /** Calls to engines. */
  attempts: number;
  /** Calls that continued an answer of another engine. */
  continuations: number;
  /** Why no other engine could have continued the answer; undefined if one could, or none was asked. */
  notKept: NotKept | undefined;
  /** Whether the request was admitted only after the longest wait for its prefill. */
  overdue: boolean;
  /** Endpoint of the last call. */
  endpoint: string | undefined;
  /** Endpoint that has read the prompt for the last one; undefined where that one has. */
  prefilledOn: string | undefined;
  /** Generate calls with spans; empty if traces are not exported. */
  tracedAttempts: readonly TracedAttempt[];
  /** Cached tokens at the last endpoint, and the reason for misses; undefined until the engine reports them. */
  cache: CacheNote | undefined;
  /** The dispatch, after all checks, with the class of the request in queues. */
  sent: { readonly atMs: number; readonly priorityClass: PriorityClass } | undefined;
  /** The last acceptance by an engine: since dispatch (queues, and failed attempts), and since the latest call. */
  accepted: { readonly queueMs: number; readonly acceptMs: number | undefined } | undefined;
  firstDeltaMs: number | undefined;
  /** The engine's last event; it has counted the tokens. */
  finished: (Pick<Finished, "reason" | "usage"> & { readonly atMs: number }) | undefined;
  /** Longest time between two writes of deltas; undefined before the second write, and for an unstreamed answer. */
  maxGapMs: number | undefined;
  /** Time for which the engine stream was paused because of a slow client. */
  backpressureMs: number | undefined;
  /** Token of the first failure, if any. */
  detail: Detail | undefined;
  /** Why the answer ended; undefined while it runs, and if the request has no answer. */
  endReason: EndReason | undefined;
};

export type RequestFacts = Readonly<Facts>;

/** The final state of a request, from which its access log line, statistics and spans are made. */
export type ClosedRequest = RequestFacts & {
  readonly requestId: string;
  readonly labels: RouteLabels;
  /** Arrival, in milliseconds of the monotonic clock. */
  readonly startedMs: number;
  /** From arrival to the end, in milliseconds. */
  readonly totalMs: number;
  /** The sent status; 0 if none was sent, as in Envoy. */
  readonly code: number;
  readonly outcome: RequestOutcome;
};

export type RequestRecordOptions = {
  readonly labels: RouteLabels;
  /** A new trace: headers of an unauthenticated caller must not decide which spans are recorded, or where. */
  readonly trace: TraceContext;
  /** The caller's headers, whose trace is continued once its key is valid. Default: the new trace stays. */
  readonly headers?: IncomingHttpHeaders;
  /** Undefined if traces are not exported: then calls to engines get no spans. */
  readonly tracing: Pick<Tracing, "headSampler"> | undefined;
  readonly clock: Clock;
};

/**
 * Records the events of one request; the counterpart of Envoy's `StreamInfo`. Each component reports an event with one
 * of the methods below; the first of several failures gives the reason. It holds only numbers and names of the
 * service, and no text of a request.
 */
export class RequestRecord implements CallRecord {
  /** Generated here: a caller cannot choose it. */
  readonly requestId = `req_${randomId()}`;
  readonly facts: RequestFacts;
  readonly #options: RequestRecordOptions;
  readonly #startedMs: number;
  /** `facts`, as this class changes them. */
  readonly #facts: Facts;
  readonly #tracedAttempts: TracedAttempt[] = [];
  readonly #failedAttempts = new Set<Detail>();
  #callSentMs: number | undefined;
  #pausedAtMs = 0;
  #pastCode: number | undefined;

  constructor(options: RequestRecordOptions) {
    this.#options = options;
    this.#startedMs = options.clock.nowMs();
    this.#facts = {
      trace: options.trace,
      principal: undefined,
      grant: undefined,
      bodyBytes: 0,
      parsed: undefined,
      attempts: 0,
      continuations: 0,
      notKept: undefined,
      overdue: false,
      endpoint: undefined,
      prefilledOn: undefined,
      tracedAttempts: this.#tracedAttempts,
      cache: undefined,
      sent: undefined,
      accepted: undefined,
      firstDeltaMs: undefined,
      finished: undefined,
      maxGapMs: undefined,
      backpressureMs: undefined,
      detail: undefined,
      endReason: undefined,
    };
    this.facts = this.#facts;
  }

  /** Cost of the completed request for its key: `work` without a failure. */
  get cost(): RequestCost {
    const { detail } = this.#facts;
    return detail ? costOf([...this.#failedAttempts, detail]) : "work";
  }

  /** The key is valid: the caller's trace is used from here on. */
  authenticated(principal: Principal): void {
    this.#facts.principal = principal;
    const { headers, tracing } = this.#options;
    if (headers && (tracing || headers.traceparent !== undefined))
      this.#facts.trace = traceContextOf(headers, tracing && ((traceId) => tracing.headSampler(traceId)));
  }

  charged(grant: Grant): void {
    this.#facts.grant = grant;
  }

  bodyRead(bytes: number): void {
    this.#facts.bodyBytes = bytes;
  }

  prepared(model: string, stream: boolean | undefined, unopened = 0): void {
    this.#facts.parsed = { model, stream, unopened };
  }

  sent(priorityClass: PriorityClass = "default"): void {
    this.#facts.sent = { atMs: this.#sinceStart(), priorityClass };
  }

  generateSent(endpoint: string, continuedTokens?: number): CallHeaders {
    this.#called(endpoint);
    if (continuedTokens !== undefined) this.#facts.continuations += 1;
    const { trace } = this.#facts;
    const { clock, tracing } = this.#options;
    if (!tracing) return traceHeaders(trace);
    const child = underSpan(trace);
    const startedMs = clock.nowMs();
    this.#tracedAttempts.push({ endpoint, spanId: child.spanId, continuedTokens, startedMs, end: undefined });
    return traceHeaders(child);
  }

  generateEnded(how: AttemptEnd): void {
    const attempt = this.#tracedAttempts.at(-1);
    if (attempt) attempt.end = { atMs: this.#options.clock.nowMs(), how };
  }

  prefillSent(): CallHeaders {
    return traceHeaders(this.#facts.trace);
  }

  prefilledOn(address: string | undefined): void {
    this.#facts.prefilledOn = address;
  }

  countSent(address: string): CallHeaders {
    this.#called(address);
    return traceHeaders(this.#facts.trace);
  }

  notKept(why: NotKept): void {
    this.#facts.notKept = why;
  }

  overdue(): void {
    this.#facts.overdue = true;
  }

  cached(note: CacheNote): void {
    this.#facts.cache = note;
  }

  attemptFailed(detail: Detail): void {
    this.#failedAttempts.add(detail);
  }

  /** An engine accepted the request; repeated by a retry. */
  started(): void {
    const nowMs = this.#options.clock.nowMs();
    const queueMs = nowMs - this.#startedMs - (this.#facts.sent?.atMs ?? 0);
    const acceptMs = this.#callSentMs === undefined ? undefined : nowMs - this.#callSentMs;
    this.#facts.accepted = { queueMs, acceptMs };
  }

  /** A delta arrived from the engine; runs for every delta. */
  delta(): void {
    this.#facts.firstDeltaMs ??= this.#sinceStart();
  }

  /** The engine completed its answer; repeated if a folded answer is repeated. */
  finished({ reason, usage }: Finished): void {
    this.#facts.finished = { reason, usage, atMs: this.#sinceStart() };
    const cut = reason === FinishReason.MAX_OUTPUT_TOKENS || reason === FinishReason.CONTEXT_WINDOW;
    this.#facts.endReason = cut ? "length" : "complete";
  }

  /** Deltas were written `gapMs` milliseconds after the previous ones; runs for every delta. */
  wrote(gapMs: number): void {
    const { maxGapMs } = this.#facts;
    if (maxGapMs === undefined || gapMs > maxGapMs) this.#facts.maxGapMs = gapMs;
  }

  paused(paused: boolean): void {
    const nowMs = this.#options.clock.nowMs();
    if (paused) this.#pausedAtMs = nowMs;
    else this.#facts.backpressureMs = (this.#facts.backpressureMs ?? 0) + nowMs - this.#pausedAtMs;
  }

  /** The client has read no byte of its answer for too long, and is disconnected. */
  readerStalled(): void {
    this.#facts.endReason = "slow_reader";
  }

  /** The request is or will be answered with an error. */
  refused(detail: Detail): void {
    this.#facts.detail ??= detail;
  }

  /** The request was answered past its reply, with the status `code`, because it could not be read to its end. */
  answeredPast(code: number, detail: Detail): void {
    this.#pastCode = code;
    this.refused(detail);
  }

  /** A running answer failed. The first reason counts, which may be its client. */
  failed(detail: Detail, clientLeft: boolean): void {
    this.refused(detail);
    this.#facts.endReason ??= clientLeft ? "client_closed" : (OUTCOMES[detail].end ?? "error");
  }

  /**
   * The reply or its connection has ended; returns the final state of the request. `replyCode` is the status of the
   * reply, 0 for none; `whole` is true if the reply was written to its end.
   */
  closed(replyCode: number, whole: boolean): ClosedRequest {
    const code = this.#pastCode ?? replyCode;
    // A refusal of an unread body is complete before it ends. Otherwise the route learns of the closed connection only
    // now.
    if (!whole && code < 400 && this.#facts.endReason === undefined) this.failed("downstream_remote_disconnect", true);
    const { requestId } = this;
    const { labels } = this.#options;
    const outcome = requestOutcome(code, this.#facts.endReason);
    const totalMs = this.#sinceStart();
    return { ...this.#facts, ...{ requestId, labels, startedMs: this.#startedMs, totalMs, code, outcome } };
  }

  #called(address: string): void {
    this.#facts.attempts += 1;
    this.#facts.endpoint = address;
    this.#callSentMs = this.#options.clock.nowMs();
  }

  #sinceStart(): number {
    return this.#options.clock.nowMs() - this.#startedMs;
  }
}

declare module "fastify" {
  interface FastifyRequest {
    record: RequestRecord;
  }
}

/** Returns the outcome in one word. A stream that failed after its status line has 200: its end reason decides. */
export function requestOutcome(code: number, endReason: EndReason | undefined): RequestOutcome {
  if (code === 0) return "client_closed";
  if (code === 429) return "rate_limited";
  if (code >= 500) return "server_error";
  if (code >= 400) return "client_error";
  return endReason === undefined ? "ok" : END_REASONS[endReason].outcome;
}
