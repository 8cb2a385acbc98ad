import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { ApiError, type Envelope } from "../../errors.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Grant } from "../../limits/grant.ts";
import type { Expected, Limiter, Use } from "../../limits/limiter.ts";
import { rateLimitHeaders } from "../../limits/rate-limit-headers.ts";
import { OUTCOMES } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import type { KeyUsage } from "../../usage/key-usage.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { principalOf, type ReplyUnderWay, routeOf } from "../request-context.ts";

export type RateLimitDeps = {
  readonly limiter: Limiter;
  /** Clock of decision latencies and of the headers. */
  readonly clock: Clock;
  /** The word before `-ratelimit-` in the header names of Format B. */
  readonly headerPrefix: string;
  /** Counts the decisions, by the limit that refused. */
  readonly stats: Stats;
  /** Counts the use of keys with and without limits. */
  readonly usage: Pick<KeyUsage, "count">;
};

/** Makes the hook that applies the limits of the key. */
export function limitRequests(deps: RateLimitDeps): onRequestAsyncHookHandler {
  return (request, reply) => admitRequest(limitedRequest(request, reply, deps), deps);
}

/** A request with the limits of its key. */
export type LimitedRequest = {
  /** Receives the charges. */
  readonly record: RequestRecord;
  readonly principal: Principal;
  readonly use: Use;
  /** The charges are settled at its end. */
  readonly reply: ReplyUnderWay;
  /** Sends the state of the limits to the caller. */
  readonly show: (grant: Grant) => void;
};

/** Returns an HTTP request in the form that limits take. */
export function limitedRequest(request: FastifyRequest, reply: FastifyReply, deps: RateLimitDeps): LimitedRequest {
  const { use, envelope } = limitedRouteOf(request);
  const show = (grant: Grant) => {
    const options = { prefix: deps.headerPrefix, wallMs: deps.clock.wallMs() };
    reply.headers(rateLimitHeaders(envelope, grant.readings, options));
  };
  return { record: request.record, principal: principalOf(request), use, reply: reply.raw, show };
}

/** Charges the key for a request before its body is read, until its reply has ended. Throws `ApiError`. */
export async function admitRequest(
  { record, principal, use, reply, show }: LimitedRequest,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant, refusal } = await timed(deps, () => deps.limiter.admit(principal, use));
  show(grant);
  if (refusal) throw refused(refusal, principal, undefined, deps);
  // A generation has yet to reserve its tokens.
  if (use !== "generation") deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
  record.charged(grant);
  // Every request ends here, whatever its outcome.
  const end = () => {
    endGrant(grant, record, reply.headersSent ? reply.statusCode : 0);
    if (use !== "none" && grant.used)
      deps.usage.count(principal.keyId, record.facts.model, { requests: 1, ...grant.used });
  };
  if (reply.destroyed) end();
  else reply.on("close", end);
}

/** Reserves the expected tokens of a checked request. Throws ApiError `rate_limit_exceeded`. */
export async function reserveTokens(
  { record, principal, show }: LimitedRequest,
  expected: Expected,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant } = record.facts;
  if (!grant) return;
  const refusal = await timed(deps, () => deps.limiter.reserve(grant, principal, expected));
  show(grant);
  if (refusal) throw refused(refusal, principal, expected.model, deps);
  deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
}

async function timed<T>({ clock, stats }: RateLimitDeps, ask: () => Promise<T>): Promise<T> {
  const beforeMs = clock.nowMs();
  const answer = await ask();
  stats.rateLimitStore.observe((clock.nowMs() - beforeMs) / 1000);
  return answer;
}

/** Counts a refusal for its limit and its key, and returns it. */
function refused(
  refusal: ApiError,
  { keyId }: Principal,
  model: string | undefined,
  { stats, usage }: RateLimitDeps,
): ApiError {
  usage.count(keyId, model, { refused: 1 });
  stats.rateLimitDecisions.inc({ dim: OUTCOMES[refusal.detail].dim ?? "other", decision: "refused" });
  return refusal;
}

/** Returns the row of a route with limits. Throws for any other: no request may bypass them by mistake. */
function limitedRouteOf(request: FastifyRequest): { readonly use: Use; readonly envelope: Envelope } {
  const spec = routeOf(request);
  if (!spec || spec.use === "open") throw new ApiError("server_error", "The route has no limits.");
  return { use: spec.use, envelope: spec.envelope };
}

/** Settles the use of a request that has ended. `status` is 0 if none was sent. */
function endGrant(grant: Grant, record: RequestRecord, status: number): void {
  const { firstDeltaMs, usage } = record.facts;
  const { cost } = record;
  const delivered = status === 200 && firstDeltaMs !== undefined;
  if (delivered || cost === "work") grant.settle(usage);
  else if (cost === "request") grant.settleWithoutTokens();
  else grant.refund();
  grant.release();
}
