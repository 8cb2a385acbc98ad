import type { IncomingMessage } from "node:http";
import type { FinishReason, Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Grant } from "../../limits/grant.ts";
import type { Detail, EndReason } from "../../outcome.ts";
import type { Trip } from "../../upstream/router.ts";
import { randomId } from "./ids.ts";
import type { RouteLabels } from "./route-labels.ts";
import { type TraceContext, traceHeaders } from "./trace-context.ts";
import type { TracedTries } from "./traced-tries.ts";

/**
 * What is known about a request while it runs; its access-log line and its stats are made of it. Numbers and names of
 * ours only: no text of a request ever gets in here.
 */
export type RequestFacts = {
  readonly requestId: string;
  readonly startedMs: number;
  readonly labels: RouteLabels;
  readonly trace: TraceContext;
  principal: Principal | undefined;
  /** What was charged to the key; undefined before it was held against its limits. */
  grant: Grant | undefined;
  /** Size of the body once it was read. */
  bodyBytes: number;
  model: string | undefined;
  stream: boolean | undefined;
  readonly trip: Trip;
  /** Its calls to engines, for its spans; undefined where no traces are exported. */
  readonly tries: TracedTries | undefined;
  /** Why it did not end well. */
  detail: Detail | undefined;
  endReason: EndReason | undefined;
  finishReason: FinishReason | undefined;
  usage: Usage | undefined;
  /** From the request's arrival to its being checked and sent on its way to an engine, in milliseconds. */
  sentMs: number | undefined;
  /** From the checked request to an engine having taken it up: queues of gateway and engine, failed tries. Milliseconds. */
  queueMs: number | undefined;
  /** From the newest call's being sent to its engine having taken it up, in milliseconds. */
  acceptMs: number | undefined;
  /** How long the engine was held back because the client read slowly, in milliseconds. */
  backpressureMs: number | undefined;
  /** From the request's arrival to its first delta, in milliseconds. */
  firstDeltaMs: number | undefined;
  /** From the request's arrival to the engine's last event, in milliseconds. */
  finishedMs: number | undefined;
  /** Longest time between two writes of deltas, in milliseconds; undefined before the second, and where none is streamed. */
  maxGapMs: number | undefined;
};

export function newFacts(nowMs: number, labels: RouteLabels, trace: TraceContext, tries?: TracedTries): RequestFacts {
  const trip: Trip = { attempts: 0, endpoint: undefined, sentMs: undefined, headers: traceHeaders(trace) };
  return {
    requestId: `req_${randomId()}`,
    startedMs: nowMs,
    labels,
    trace,
    principal: undefined,
    grant: undefined,
    bodyBytes: 0,
    model: undefined,
    stream: undefined,
    trip: tries ? { ...trip, beginTry: (endpoint) => tries.begin(endpoint) } : trip,
    tries,
    detail: undefined,
    endReason: undefined,
    finishReason: undefined,
    usage: undefined,
    sentMs: undefined,
    queueMs: undefined,
    acceptMs: undefined,
    backpressureMs: undefined,
    firstDeltaMs: undefined,
    finishedMs: undefined,
    maxGapMs: undefined,
  };
}

declare module "fastify" {
  interface FastifyRequest {
    facts: RequestFacts;
  }
}

/** Path of a request target without its query string. */
export function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
