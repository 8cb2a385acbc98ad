import type { FastifyReply, FastifyRequest } from "fastify";
import { toApiError } from "../../errors.ts";
import { needsTurns, nextTurn } from "../../event-loop-turn.ts";
import type { CountFormat } from "../../formats/format.ts";
import type { Router } from "../../upstream/router.ts";
import { requireModel } from "../access/model-access.ts";
import { principalOf, type RequestContext, takeBody } from "../request-context.ts";
import { located } from "./answer-failure.ts";
import type { RunningAnswers } from "./running-answers.ts";

/** What answering a count of tokens works with beside its request. */
export type CountTokensDeps = {
  /** Asks an endpoint for the count. */
  readonly router: Router;
  /** What checking and translating the body takes. */
  readonly context: RequestContext;
  /** All answers under way, which end when the service must stop. */
  readonly running: RunningAnswers;
};

/**
 * Makes the handler of all routes that count the tokens of a prompt. The count is exact, by the engine's own template
 * and tokenizer, and takes no slot.
 */
export function countTokensRoute(format: CountFormat, { router, context, running }: CountTokensDeps) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { record } = request;
    const principal = principalOf(request);
    const prepared = format.prepare(takeBody(request), context.prepareContext(principal, format.name));
    record.prepared(prepared.model, undefined);
    requireModel(principal, prepared.model);
    if (needsTurns(record.bodyBytes)) await nextTurn();
    const { signal } = running.begin(reply.raw);
    const counted = { ...prepared.request, tenant: principal.tenant };
    const counting = router.countTokens({ request: counted, bytes: record.bodyBytes, record }, signal);
    const inputTokens = await counting.catch((error: unknown) => {
      throw located(toApiError(error), format.fields, prepared);
    });
    return reply.type("application/json; charset=utf-8").send(JSON.stringify(format.reply(inputTokens)));
  };
}
