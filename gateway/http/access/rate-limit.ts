import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError, Envelope } from "../../errors.ts";
import type { Grant } from "../../limits/grant.ts";
import { estimateInputTokens } from "../../limits/input-estimate.ts";
import type { Limiter, Use } from "../../limits/limiter.ts";
import { rateLimitHeaders } from "../../limits/rate-limit-headers.ts";
import { END_REASONS, OUTCOMES } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import type { RequestFacts } from "../record/request-facts.ts";
import { principalOf } from "../request-context.ts";

export type RateLimitDeps = {
  readonly limiter: Limiter;
  readonly clock: Clock;
  /** Word before `-ratelimit-` in the headers of Format B. */
  readonly headerPrefix: string;
  readonly stats: Stats;
};

/** What the routes do with a key's limits; the others only say how they stand. */
const USES: Readonly<Record<string, Use>> = {
  "/v1/chat/completions": "generation",
  "/v1/messages": "generation",
  "/v1/responses": "generation",
  "/v1/messages/count_tokens": "count",
};

/** Every route of this context is held against the limits of its key, before a byte of the body is read. */
export function limitRequests(app: FastifyInstance, envelope: Envelope, deps: RateLimitDeps): void {
  app.addHook("onRequest", async (request, reply) => {
    const { facts } = request;
    const use = USES[request.routeOptions.url ?? ""] ?? "none";
    const { grant, refusal } = await timed(deps, () => deps.limiter.admit(principalOf(request), use));
    showLimits(reply, grant, envelope, deps);
    if (refusal) throw refused(refusal, deps.stats);
    // A generation is yet to ask for its tokens.
    if (use !== "generation") deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
    facts.grant = grant;
    // Every request ends here, whatever happens to it.
    const end = () => endGrant(grant, facts, reply.raw.headersSent ? reply.raw.statusCode : 0);
    if (reply.raw.destroyed) end();
    else reply.raw.once("close", end);
  });
}

/** Takes the tokens that a checked request is expected to need. Throws `rate_limit_exceeded`. */
export async function reserveTokens(
  request: FastifyRequest,
  reply: FastifyReply,
  { model, messages, maxOutputTokens }: Pick<GenerateRequest, "model" | "messages" | "maxOutputTokens">,
  envelope: Envelope,
  deps: RateLimitDeps,
): Promise<void> {
  const { grant, bodyBytes } = request.facts;
  if (!grant) return;
  const inputTokens = estimateInputTokens(bodyBytes, messages);
  const expected = { model, inputTokens, maxOutputTokens };
  const refusal = await timed(deps, () => deps.limiter.reserve(grant, principalOf(request), expected));
  showLimits(reply, grant, envelope, deps);
  if (refusal) throw refused(refusal, deps.stats);
  deps.stats.rateLimitDecisions.inc({ dim: "all", decision: "allowed" });
}

async function timed<T>({ clock, stats }: RateLimitDeps, ask: () => Promise<T>): Promise<T> {
  const beforeMs = clock.nowMs();
  const answer = await ask();
  stats.rateLimitStore.observe((clock.nowMs() - beforeMs) / 1000);
  return answer;
}

/** Counts a refusal under the limit that its token names. */
function refused(refusal: ApiError, stats: Stats): ApiError {
  stats.rateLimitDecisions.inc({ dim: OUTCOMES[refusal.detail].dim ?? "other", decision: "refused" });
  return refusal;
}

function showLimits(reply: FastifyReply, grant: Grant, envelope: Envelope, deps: RateLimitDeps): void {
  const options = { prefix: deps.headerPrefix, wallMs: deps.clock.wallMs() };
  reply.headers(rateLimitHeaders(envelope, grant.readings, options));
}

/** `status`: 0 when none was sent. */
function endGrant(grant: Grant, facts: RequestFacts, status: number): void {
  const { detail, endReason, firstDeltaMs } = facts;
  const ourFailure = endReason !== undefined && END_REASONS[endReason].outcome === "server_error";
  const emptyHanded = status === 200 && firstDeltaMs === undefined && ourFailure;
  if (status >= 500 || emptyHanded || (detail && OUTCOMES[detail].free)) grant.refund();
  else if (status >= 400) grant.settleWithoutTokens();
  else grant.settle(facts.usage);
  grant.release();
}
