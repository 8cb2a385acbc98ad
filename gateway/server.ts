import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import type { Logger } from "pino";
import { onAbort } from "../deploy/runtime/time/abort.ts";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "./config.ts";
import { ENVELOPES } from "./errors.ts";
import { takeApiVersion } from "./http/access/api-version.ts";
import { type AuthDeps, requireKey } from "./http/access/auth.ts";
import { endConnectionsUnderPressure, shedRequests } from "./http/access/overload.ts";
import { limitRequests, type RateLimitDeps } from "./http/access/rate-limit.ts";
import { refuseUnclearRequests } from "./http/access/request-hygiene.ts";
import { registerTrafficStats } from "./http/admin/fleet/traffic-stats.ts";
import { countTokensRoute } from "./http/answer/count-tokens-route.ts";
import { FlushQueue } from "./http/answer/flush-queue.ts";
import { type GenerateRouteDeps, generateRoute } from "./http/answer/generate-route.ts";
import { getModel, listModels } from "./http/answer/models-route.ts";
import { RunningAnswers } from "./http/answer/running-answers.ts";
import { type BodyLimits, limitBodies, parseBodies } from "./http/body/request-body.ts";
import { answerNotFound, useEnvelope } from "./http/connection/envelope.ts";
import { publicApp } from "./http/connection/public-app.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import { RequestContext } from "./http/request-context.ts";
import type { KeyStore } from "./keys/key-store.ts";
import { AuthFailures } from "./limits/auth-failures.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { Limiter } from "./limits/limiter.ts";
import { OverloadManager } from "./overload/overload-manager.ts";
import { registerOverloadStats } from "./overload/overload-stats.ts";
import { type OtherOperation, ROUTES, urlPattern } from "./routes.ts";
import type { Sealing } from "./sealing.ts";
import type { Stats } from "./stats/stats.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { timeoutsOf } from "./upstream/call/timeouts.ts";
import type { ClusterManager } from "./upstream/cluster-manager.ts";
import { Router } from "./upstream/router.ts";

export type GatewayDeps = {
  readonly config: GatewayConfig;
  readonly keys: KeyStore;
  /** Where what keys use is counted. */
  readonly limitStore: LimitStore;
  readonly clusters: ClusterManager;
  readonly sealing: Sealing;
  readonly stats: Stats;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absent: no traces are exported. */
  readonly tracing?: Tracing | undefined;
  /** Aborted when running answers must end now. */
  readonly hardStop: AbortSignal;
};

export type GatewayServer = {
  readonly app: FastifyInstance;
  readonly sockets: SocketTable;
  readonly limiter: Limiter;
  readonly overload: OverloadManager;
};

/** The public API: hooks and contexts in the order in which a request meets them. */
export function buildServer(deps: GatewayDeps): GatewayServer {
  const { config, keys, limitStore, clusters, sealing, stats, clock, log, tracing, hardStop } = deps;
  const { timeouts } = config;
  const { app, sockets } = publicApp(timeouts, { log, stats, clock, tracing, trustedHops: config.xffNumTrustedHops });
  const overload = new OverloadManager(config.overloadManager, clock);
  app.server.once("close", () => overload.close());
  registerOverloadStats(stats.registry, overload);
  const bodies: BodyLimits = {
    maxBodyBytes: config.maxBodyBytes,
    json: config.jsonLimits,
    overload,
    random: Math.random,
  };
  parseBodies(app, bodies);
  refuseUnclearRequests(app);
  endConnectionsUnderPressure(app, overload);
  // Whatever the body is, the path is what the caller has to hear of; and it is not read from just anybody.
  app.addHook("onRequest", async (request, reply) => (request.is404 ? answerNotFound(request, reply) : undefined));
  useEnvelope(app, "a");

  const { headerPrefix, ...settings } = config.limits;
  const limiter = new Limiter({ store: limitStore, ...settings });
  const limits: RateLimitDeps = { limiter, clock, headerPrefix, stats };
  const running = new RunningAnswers();
  onAbort(hardStop, () => running.stop());
  const router = new Router({
    clusters,
    clock,
    timeouts: timeoutsOf(config.timeouts),
    ...config.retry,
    random: Math.random,
    stats: stats.upstream,
  });
  registerTrafficStats(stats.registry, router.traffic);
  const route: GenerateRouteDeps = {
    router,
    context: new RequestContext(clusters, sealing, {
      strictAlternation: config.formats.strictAlternation,
      unsupportedTools: config.formats.responses.unsupportedTools,
    }),
    limits,
    queue: new FlushQueue(),
    clock,
    stats,
    timeouts,
    running,
  };
  const handlers: Readonly<Record<OtherOperation, RouteHandlerMethod>> = {
    count_tokens: countTokensRoute(router, route.context, running),
    list_models: listModels,
    get_model: getModel,
    probe: async (_request, reply) => reply.code(200).send(),
  };
  const register = (context: FastifyInstance, specs: readonly (typeof ROUTES)[number][]) => {
    for (const spec of specs) {
      const handler = spec.use === "generation" ? generateRoute(spec.format, route) : handlers[spec.operation];
      context.route({ url: urlPattern(spec), method: [...spec.methods], config: { spec }, handler });
    }
  };
  const failures = new AuthFailures(config.auth.maxFailuresPerMinute, clock);
  const auth: AuthDeps = { keys, failures, trustedHops: config.xffNumTrustedHops, stats };

  register(
    app,
    ROUTES.filter(({ use }) => use === "open"),
  );
  // One context per envelope: whatever is thrown inside, by hooks and parsers too, is answered in it.
  for (const envelope of ENVELOPES)
    app.register(async (context) => {
      useEnvelope(context, envelope);
      // From the key to the body, cheapest refusal first.
      requireKey(context, auth);
      if (envelope === "b") takeApiVersion(context);
      limitRequests(context, limits);
      shedRequests(context, overload, Math.random);
      limitBodies(context, bodies);
      register(
        context,
        ROUTES.filter((spec) => spec.use !== "open" && spec.envelope === envelope),
      );
    });
  return { app, sockets, limiter, overload };
}
