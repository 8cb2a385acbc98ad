import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { ApiError, type Envelope } from "../../errors.ts";
import type { Grant } from "../../limits/grant.ts";
import type { Expected, Limiter, Use } from "../../limits/limiter.ts";
import { rateLimitHeaders } from "../../limits/rate-limit-headers.ts";
import { OUTCOMES } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { principalOf, routeOf } from "../request-context.ts";

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
};

/** Holds every request of this context against the limits of its key, before a byte of the body is read. */
export function limitRequests(app: FastifyInstance, deps: RateLimitDeps): void {
  app.addHook("onRequest", async (request, reply) => {
    const { record } = request;
    const { use } = limitedRouteOf(request);
    const { grant, refusal } = await timed(deps, () => deps.limiter.admit(principalOf(request), use));
    showLimits(request, reply, grant, deps);
    if (refusal) throw refused(refusal, deps.stats);
    // A generation is yet to ask for its tokens.
    if (use !== "generation") deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
    record.charged(grant);
    // Every request ends here, whatever happens to it.
    const end = () => endGrant(grant, record, reply.raw.headersSent ? reply.raw.statusCode : 0);
    if (reply.raw.destroyed) end();
    else reply.raw.once("close", end);
  });
}

/**
 * Takes from the limits of its key the tokens that a checked request is expected to need. Throws ApiError
 * `rate_limit_exceeded`.
 */
export async function reserveTokens(
  request: FastifyRequest,
  reply: FastifyReply,
  expected: Expected,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant } = request.record;
  if (!grant) return;
  const refusal = await timed(deps, () => deps.limiter.reserve(grant, principalOf(request), expected));
  showLimits(request, reply, grant, deps);
  if (refusal) throw refused(refusal, deps.stats);
  deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
}

async function timed<T>({ clock, stats }: RateLimitDeps, ask: () => Promise<T>): Promise<T> {
  const beforeMs = clock.nowMs();
  const answer = await ask();
  stats.rateLimitStore.observe((clock.nowMs() - beforeMs) / 1000);
  return answer;
}

/** Counts a refusal under the limit that its token names, and returns it. */
function refused(refusal: ApiError, stats: Stats): ApiError {
  stats.rateLimitDecisions.inc({ dim: OUTCOMES[refusal.detail].dim ?? "other", decision: "refused" });
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

function showLimits(request: FastifyRequest, reply: FastifyReply, grant: Grant, deps: RateLimitDeps): void {
  const options = { prefix: deps.headerPrefix, wallMs: deps.clock.wallMs() };
  reply.headers(rateLimitHeaders(limitedRouteOf(request).envelope, grant.readings, options));
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
