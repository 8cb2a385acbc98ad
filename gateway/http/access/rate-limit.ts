import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { ApiError } from "../../errors.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Grant } from "../../limits/grant.ts";
import type { Expected, Limiter, Use } from "../../limits/limiter.ts";
import { rateLimitHeaders } from "../../limits/rate-limit-headers.ts";
import { OUTCOMES } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import type { KeyUsage } from "../../usage/key-usage.ts";
import { principalOf, type ReplyUnderWay, routeOf } from "../record/request-context.ts";
import type { RequestRecord } from "../record/request-record.ts";

export type RateLimitDeps = {
  readonly limiter: Limiter;
  /** Clock of decision latencies and of the headers. */
  readonly clock: Clock;
  readonly stats: Stats;
  readonly usage: Pick<KeyUsage, "count">;
};

export type LimitedRequest = {
  readonly record: RequestRecord;
  readonly principal: Principal;
  readonly use: Use;
  /** The charges are settled at its end. */
  readonly reply: ReplyUnderWay;
  readonly show: (grant: Grant) => void;
};

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined until the key is valid. */
    limited: LimitedRequest | undefined;
  }
}

/** Returns an HTTP request in the form that limits take. Throws for one of a route without: none may bypass them. */
export function limitedRequest(request: FastifyRequest, reply: FastifyReply, deps: RateLimitDeps): LimitedRequest {
  const spec = routeOf(request);
  if (!spec || spec.use === "open") throw new ApiError("server_error", "The route has no limits.");
  const { use, envelope } = spec;
  const show = ({ readings }: Grant) => {
    reply.headers(rateLimitHeaders(envelope, readings, deps.clock.wallMs()));
  };
  return { record: request.record, principal: principalOf(request), use, reply: reply.raw, show };
}

/** Charges the key for a request before its body is read, until its reply has ended. Throws `ApiError`. */
export async function admitRequest(
  { record, principal, use, reply, show }: LimitedRequest,
  deps: RateLimitDeps,
): Promise<void> {
  const beforeMs = deps.clock.nowMs();
  const { grant, refusal } = await deps.limiter.admit(principal, use);
  deps.stats.rateLimitStore.observe((deps.clock.nowMs() - beforeMs) / 1000);
  show(grant);
  if (refusal) throw refused(refusal, principal, undefined, deps);
  // A generation has yet to reserve its tokens.
  if (use !== "generation") deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
  record.charged(grant);
  // Every request ends here, whatever its outcome.
  const end = () => {
    const { cost, facts } = record;
    const delivered = reply.headersSent && reply.statusCode === 200 && facts.firstDeltaMs !== undefined;
    if (delivered || cost === "work") grant.settle(facts.finished?.usage);
    else if (cost === "request") grant.settleWithoutTokens();
    else grant.refund();
    grant.release();
    if (use !== "none" && grant.used)
      deps.usage.count(principal.keyId, facts.parsed?.model, { requests: 1, ...grant.used });
  };
  if (reply.destroyed) end();
  else reply.on("close", end);
}

/** Reserves the expected tokens of a checked request. Throws ApiError `rate_limit_exceeded`. */
export async function reserveTokens(
  limited: LimitedRequest | undefined,
  expected: Expected,
  deps: RateLimitDeps,
): Promise<void> {
  const grant = limited?.record.facts.grant;
  if (!grant) return;
  const { principal, show } = limited;
  const beforeMs = deps.clock.nowMs();
  const refusal = await deps.limiter.reserve(grant, principal, expected);
  deps.stats.rateLimitStore.observe((deps.clock.nowMs() - beforeMs) / 1000);
  show(grant);
  if (refusal) throw refused(refusal, principal, expected.model, deps);
  deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
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
