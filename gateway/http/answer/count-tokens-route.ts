import type { FastifyReply, FastifyRequest } from "fastify";
import { toApiError } from "../../errors.ts";
import type { CountFormat } from "../../formats/format.ts";
import { RequestBuffer } from "../../upstream/request/request-buffer.ts";
import type { Router } from "../../upstream/router.ts";
import { type TranslationDeps, translateBody } from "../body/request-body.ts";
import { principalOf } from "../record/request-context.ts";
import { located } from "./dispatch-answer.ts";
import type { RunningAnswers } from "./running-answers.ts";

export type CountTokensDeps = {
  readonly router: Router;
  readonly translation: TranslationDeps;
  readonly running: RunningAnswers;
};

/** Makes the handler of all routes that count tokens: exactly, by the engine's own template; it takes no slot. */
export function countTokensRoute(format: CountFormat, { router, translation, running }: CountTokensDeps) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { record } = request;
    const principal = principalOf(request);
    const { signal } = running.begin(reply.raw, principal.keyId);
    const { model, bytes, places } = await translateBody(request, signal, translation);
    record.prepared(model, undefined);
    translation.models.require(principal, model);
    const counting = { request: new RequestBuffer({ bytes }, principal.tenant), model, record };
    const inputTokens = await router.tokenCounter.count(counting, signal).catch((error: unknown) => {
      throw located(toApiError(error), format.fields, places);
    });
    return reply.type("application/json; charset=utf-8").send(JSON.stringify(format.reply(inputTokens)));
  };
}
