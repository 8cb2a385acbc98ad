import type { FastifyReply, FastifyRequest } from "fastify";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { needsTurns, nextTurn } from "../../event-loop-turn.ts";
import type { Format, Head } from "../../formats/format.ts";
import { requireModel } from "../access/model-access.ts";
import { withinOutputLimit } from "../access/output-limit.ts";
import { type RateLimitDeps, reserveTokens } from "../access/rate-limit.ts";
import { randomId } from "../record/ids.ts";
import { principalOf, type RequestContext } from "../request-context.ts";
import type { AnswerDeps } from "./answering.ts";
import { foldedAnswer } from "./folded-answer.ts";
import { streamedAnswer } from "./streamed-answer.ts";

export type GenerateRouteDeps = AnswerDeps & {
  readonly context: RequestContext;
  readonly limits: RateLimitDeps;
};

/** The one handler of all three formats: check, translate, dispatch, and write what comes. */
export function generateRoute(format: Format, deps: GenerateRouteDeps) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { facts } = request;
    const principal = principalOf(request);
    const prepared = format.prepare(request.body, deps.context.prepareContext(principal));
    facts.model = prepared.model;
    facts.stream = prepared.stream;
    requireModel(principal, prepared.model);
    const asked = withinOutputLimit(prepared.request, principal);
    await reserveTokens(request, reply, asked, deps.limits);
    if (needsTurns(facts.bodyBytes)) await nextTurn();
    const generate: GenerateRequest = {
      ...asked,
      cache: deps.context.cacheHints(principal, prepared.request.cache),
      requestId: facts.requestId,
      tenant: principal.tenant,
      priority: 0,
      stream: undefined,
    };
    const head: Head = {
      replyId: randomId(),
      requestId: facts.requestId,
      createdSeconds: Math.floor(deps.clock.wallMs() / 1000),
      nowSeconds: () => Math.floor(deps.clock.wallMs() / 1000),
      sealer: deps.context.sealing.for(principal.tenant),
    };
    const answer = deps.running.begin(reply.raw);
    const hints = deps.context.routingHints(principal, prepared.model, request.headers);
    const answering = { format, prepared, generate, head, hints, reply, answer };
    const live = deps.stats.live.model(prepared.model);
    const cancelled = timeCancelling(answer.signal, deps);
    live.active += 1;
    try {
      return await (prepared.stream ? streamedAnswer(answering, deps) : foldedAnswer(answering, deps));
    } finally {
      live.active -= 1;
      cancelled();
    }
  };
}

/** To be called when the answer is over: measures how long that took when nobody waited for it any more. */
function timeCancelling(signal: AbortSignal, { clock, stats, running }: AnswerDeps): () => void {
  let leftMs: number | undefined;
  const left = () => {
    if (!running.stopped) leftMs = clock.nowMs();
  };
  const letGo = onAbort(signal, left);
  return () => {
    letGo();
    if (leftMs !== undefined) stats.cancelLatency.observe((clock.nowMs() - leftMs) / 1000);
  };
}
