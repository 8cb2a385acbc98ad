import type { FastifyReply, FastifyRequest } from "fastify";
import { needsTurns, nextTurn } from "../../event-loop-turn.ts";
import { prepareCountTokens } from "../../formats/messages/count-tokens.ts";
import { messages } from "../../formats/messages/request.ts";
import type { Router } from "../../upstream/router.ts";
import { requireModel } from "../access/model-access.ts";
import { principalOf, type RequestContext, takeBody } from "../request-context.ts";
import type { RunningAnswers } from "./running-answers.ts";

/**
 * Makes the handler of POST /v1/messages/count_tokens. The count is exact, by the engine's own template and tokenizer,
 * and takes no slot.
 */
export function countTokensRoute(router: Router, context: RequestContext, running: RunningAnswers) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { record } = request;
    const principal = principalOf(request);
    const prepared = prepareCountTokens(takeBody(request), context.prepareContext(principal, messages.name));
    record.prepared(prepared.model, undefined);
    requireModel(principal, prepared.model);
    if (needsTurns(record.bodyBytes)) await nextTurn();
    const { signal } = running.begin(reply.raw);
    const counted = { ...prepared.request, tenant: principal.tenant };
    const inputTokens = await router.countTokens({ request: counted, bytes: record.bodyBytes, record }, signal);
    return reply.type("application/json; charset=utf-8").send(JSON.stringify({ input_tokens: inputTokens }));
  };
}
