import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import { ENVELOPES } from "../errors.ts";
import type { OverloadManager } from "../overload/overload-manager.ts";
import { ROUTES, urlPattern } from "../routes.ts";
import { type AuthDeps, requireKey } from "./access/auth.ts";
import { admitRequest, limitedRequest, type RateLimitDeps } from "./access/rate-limit.ts";
import { checkApiVersion, refuseUnclearHead } from "./access/request-head.ts";
import { type BodyLimits, parseBodies, refuseInTrouble, reserveBody } from "./body/request-body.ts";
import { answerOrigin } from "./connection/cross-origin.ts";
import { answerNotFound, useEnvelope } from "./connection/envelope.ts";
import { routeLabels } from "./record/request-record.ts";

type Route = (typeof ROUTES)[number];

export type HandlerOf = (spec: Route) => RouteHandlerMethod;

/** What the hooks of routes with a key work with. */
export type HookParts = {
  readonly auth: AuthDeps;
  readonly limits: RateLimitDeps;
  readonly overload: OverloadManager;
  readonly bodies: BodyLimits;
  readonly allowOrigins: readonly string[];
};

/**
 * The way of a request to its handler, in order. `publicApp` has made its record and its access log line. `onRequest`
 * hooks run before a byte of the body is read, the cheapest refusal first. All errors of a context, including those of
 * hooks and parsers, use its envelope.
 */
export function routeRequests(
  app: FastifyInstance,
  handlerOf: HandlerOf,
  { auth, limits, overload, bodies, allowOrigins }: HookParts,
): void {
  useEnvelope(app, "a");
  // A hook that returns a promise would cost several of them, and a round of the microtask queue.
  app.addHook("onRequest", (request, reply, done) => {
    refuseUnclearHead(request, reply);
    if (answerOrigin(allowOrigins, request, reply)) return;
    // The path decides the reply, whatever the body is; and bodies of strangers are not read.
    if (request.is404) answerNotFound(request, reply);
    else done();
  });
  parseBodies(app, bodies);
  addRoutes(app, handlerOf, ({ use }) => use === "open");
  for (const envelope of ENVELOPES)
    app.register(async (context) => {
      useEnvelope(context, envelope);
      context.addHook("onRequest", async (request, reply) => {
        await requireKey(request, reply, auth);
        if (envelope === "b") checkApiVersion(request.headers);
        // An overloaded process sends no request to the limit store, and has no charge to refund for refused requests.
        refuseInTrouble(overload, bodies.random);
        request.limited = limitedRequest(request, reply, limits);
        await admitRequest(request.limited, limits);
        await reserveBody(request, reply, bodies);
      });
      addRoutes(context, handlerOf, (spec) => spec.use !== "open" && spec.envelope === envelope);
    });
}

function addRoutes(context: FastifyInstance, handlerOf: HandlerOf, chosen: (spec: Route) => boolean): void {
  for (const spec of ROUTES.filter(chosen)) {
    const config = { spec, labels: routeLabels(spec) };
    context.route({ url: urlPattern(spec), method: [...spec.methods], config, handler: handlerOf(spec) });
  }
}
