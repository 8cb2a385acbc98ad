import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
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

/** What holding requests against the limits of their keys works with. */
export type RateLimitDeps = {
  /** Decides whether the limits of a key have room. */
  readonly limiter: Limiter;
  /** The clock of how long decisions take and of what the headers say. */
  readonly clock: Clock;
  /** The word before `-ratelimit-` in the header names of Format B. */
  readonly headerPrefix: string;
  /** Counts the decisions, by the limit that refused. */
  readonly stats: Stats;
  /** Counts what keys use, whether they have limits or not. */
  readonly usage: Pick<KeyUsage, "count">;
};

/** Holds every request of this context against the limits of its key, before a byte of the body is read. */
export function limitRequests(app: FastifyInstance, deps: RateLimitDeps): void {
  app.addHook("onRequest", async (request, reply) => admitRequest(limitedRequest(request, reply, deps), deps));
}

/** A request that is held against the limits of its key. */
export type LimitedRequest = {
  /** The record of the request, which is told what it was charged. */
  readonly record: RequestRecord;
  /** The owner of its key. */
  readonly principal: Principal;
  /** The use that it makes of the limits. */
  readonly use: Use;
  /** The reply to it, at whose end it is settled with the key. */
  readonly reply: ReplyUnderWay;
  /** Tells the caller how its limits stand. */
  readonly show: (grant: Grant) => void;
};

/** Returns a request of HTTP as its limits see it. */
export function limitedRequest(request: FastifyRequest, reply: FastifyReply, deps: RateLimitDeps): LimitedRequest {
  const { use, envelope } = limitedRouteOf(request);
  const show = (grant: Grant) => {
    const options = { prefix: deps.headerPrefix, wallMs: deps.clock.wallMs() };
    reply.headers(rateLimitHeaders(envelope, grant.readings, options));
  };
  return { record: request.record, principal: principalOf(request), use, reply: reply.raw, show };
}

/**
 * Takes from the limits of its key what a request needs before its body is read, until its reply is over. Throws
 * `ApiError`.
 */
export async function admitRequest(
  { record, principal, use, reply, show }: LimitedRequest,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant, refusal } = await timed(deps, () => deps.limiter.admit(principal, use));
  show(grant);
  if (refusal) throw refused(refusal, principal, undefined, deps);
  // A generation is yet to ask for its tokens.
  if (use !== "generation") deps.stats.rateLimitDecisions.of("all", "allowed").inc();
  record.charged(grant);
  // Every request ends here, whatever happens to it.
  const end = () => {
    endGrant(grant, record, reply.headersSent ? reply.statusCode : 0);
    if (use !== "none" && grant.used) deps.usage.count(principal.keyId, record.model, { requests: 1, ...grant.used });
  };
  if (reply.destroyed) end();
  else reply.on("close", end);
}

/**
 * Takes from the limits of its key the tokens that a checked request is expected to need. Throws ApiError
 * `rate_limit_exceeded`.
 */
export async function reserveTokens(
  { record, principal, show }: LimitedRequest,
  expected: Expected,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant } = record;
  if (!grant) return;
  const refusal = await timed(deps, () => deps.limiter.reserve(grant, principal, expected));
  show(grant);
  if (refusal) throw refused(refusal, principal, expected.model, deps);
  deps.stats.rateLimitDecisions.of("all", "allowed").inc();
}

async function timed<T>({ clock, stats }: RateLimitDeps, ask: () => Promise<T>): Promise<T> {
  const beforeMs = clock.nowMs();
  const answer = await ask();
  stats.rateLimitStore.of().observe((clock.nowMs() - beforeMs) / 1000);
  return answer;
}

/** Counts a refusal under the limit that its token names and for its key, and returns it. */
function refused(
  refusal: ApiError,
  { keyId }: Principal,
  model: string | undefined,
  { stats, usage }: RateLimitDeps,
): ApiError {
  usage.count(keyId, model, { refused: 1 });
  stats.rateLimitDecisions.of(OUTCOMES[refusal.detail].dim ?? "other", "refused").inc();
  return refusal;
}

/**
 * Returns the row of a route that is held against limits. Throws for any other: a request must never get past them by a
 * mistake.
 */
function limitedRouteOf(request: FastifyRequest): { readonly use: Use; readonly envelope: Envelope } {
  const spec = routeOf(request);
  if (!spec || spec.use === "open") throw new ApiError("server_error", "The route has no limits.");
  return { use: spec.use, envelope: spec.envelope };
}

/** Settles with the key what a request that is over has used. `status` is 0 when none was sent. */
function endGrant(grant: Grant, record: RequestRecord, status: number): void {
  const { cost, firstDeltaMs, usage } = record;
  const delivered = status === 200 && firstDeltaMs !== undefined;
  if (delivered || cost === "work") grant.settle(usage);
  else if (cost === "request") grant.settleWithoutTokens();
  else grant.refund();
  grant.release();
}
