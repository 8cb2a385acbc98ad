import type { FastifyInstance, onRequestHookHandler, RouteHandlerMethod } from "fastify";
import { ENVELOPES } from "../errors.ts";
import type { OverloadManager } from "../overload/overload-manager.ts";
import { ROUTES, urlPattern } from "../routes.ts";
import { type AuthDeps, requireKey } from "./access/auth.ts";
import { limitRequests, type RateLimitDeps } from "./access/rate-limit.ts";
import { checkApiVersion, headHooks } from "./access/request-head.ts";
import { type BodyLimits, parseBodies, refuseInTrouble, reserveBody } from "./body/request-body.ts";
import { answerNotFound, useEnvelope } from "./connection/envelope.ts";
import { atOnce } from "./request-context.ts";

type Route = (typeof ROUTES)[number];

/** Returns the handler of a route. */
export type HandlerOf = (spec: Route) => RouteHandlerMethod;

/** What the hooks of routes with a key work with. */
export type Gates = {
  readonly auth: AuthDeps;
  readonly limits: RateLimitDeps;
  readonly overload: OverloadManager;
  readonly bodies: BodyLimits;
};

/**
 * The way of a request to its handler, in order. `publicApp` has made its record and its access log line. `onRequest`
 * hooks run before a byte of the body is read, the cheapest refusal first. All errors of a context, including those of
 * hooks and parsers, use its envelope.
 */
export function routeRequests(
  app: FastifyInstance,
  handlerOf: HandlerOf,
  { auth, limits, overload, bodies }: Gates,
): void {
  const { refuseUnclearHead, requestBody } = headHooks(app);
  useEnvelope(app, "a");
  app.addHook("onRequest", refuseUnclearHead);
  app.addHook("onRequest", answerUnknownPaths);
  app.addHook("preParsing", requestBody);
  parseBodies(app, bodies);
  addRoutes(app, handlerOf, ({ use }) => use === "open");
  for (const envelope of ENVELOPES)
    app.register(async (context) => {
      useEnvelope(context, envelope);
      context.addHook("onRequest", requireKey(auth));
      if (envelope === "b")
        context.addHook(
          "onRequest",
          atOnce(({ headers }) => checkApiVersion(headers)),
        );
      // An overloaded process sends no request to the limit store, and has no charge to refund for refused requests.
      context.addHook(
        "onRequest",
        atOnce(() => refuseInTrouble(overload, bodies.random)),
      );
      context.addHook("onRequest", limitRequests(limits));
      context.addHook("onRequest", reserveBody(bodies));
      addRoutes(context, handlerOf, (spec) => spec.use !== "open" && spec.envelope === envelope);
    });
}

/** The path decides the reply, whatever the body is; and bodies of strangers are not read. */
const answerUnknownPaths: onRequestHookHandler = (request, reply, done) => {
  if (request.is404) answerNotFound(request, reply);
  else done();
};

function addRoutes(context: FastifyInstance, handlerOf: HandlerOf, chosen: (spec: Route) => boolean): void {
  for (const spec of ROUTES.filter(chosen))
    context.route({ url: urlPattern(spec), method: [...spec.methods], config: { spec }, handler: handlerOf(spec) });
}
