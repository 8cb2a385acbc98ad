import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import type { Logger } from "pino";
import type { FollowedPems } from "../deploy/runtime/files/followed-file.ts";
import { atMostEvery } from "../deploy/runtime/log/process-log.ts";
import { onAbort } from "../deploy/runtime/time/abort.ts";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "./config.ts";
import { ENVELOPES } from "./errors.ts";
import { GrpcListener, type GrpcListenerDeps } from "./grpc/grpc-listener.ts";
import { takeApiVersion } from "./http/access/api-version.ts";
import { type AuthDeps, requireKey } from "./http/access/auth.ts";
import { shedRequests } from "./http/access/overload.ts";
import { limitRequests, type RateLimitDeps } from "./http/access/rate-limit.ts";
import { refuseUnclearRequests } from "./http/access/request-hygiene.ts";
import { registerContinuationStats } from "./http/admin/fleet/continuation-stats.ts";
import { registerTrafficStats } from "./http/admin/fleet/traffic-stats.ts";
import { contractRoute } from "./http/answer/contract-route.ts";
import { countTokensRoute } from "./http/answer/count-tokens-route.ts";
import { FlushQueue } from "./http/answer/flush-queue.ts";
import { type GenerateRouteDeps, generateRoute } from "./http/answer/generate-route.ts";
import { getModel, listModels } from "./http/answer/models-route.ts";
import { RunningAnswers } from "./http/answer/running-answers.ts";
import { type BodyLimits, limitBodies, receiveBodies, type TranslationDeps } from "./http/body/request-body.ts";
import { capConnections } from "./http/connection/connection-cap.ts";
import { answerNotFound, useEnvelope } from "./http/connection/envelope.ts";
import { publicApp } from "./http/connection/public-app.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import { ModelDirectory } from "./http/model-directory.ts";
import type { RecordSinks } from "./http/record/access-log.ts";
import { serveTryItPage } from "./http/try-it/try-it-page.ts";
import type { KeyStore } from "./keys/key-store.ts";
import type { TokenVerifier } from "./keys/tokens/token-verifier.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { Limiter } from "./limits/limiter.ts";
import { TokenBuckets } from "./limits/token-bucket.ts";
import { connectionsFor, openFilesLimit } from "./overload/open-files.ts";
import { OverloadManager } from "./overload/overload-manager.ts";
import { registerOverloadStats } from "./overload/overload-stats.ts";
import { type OtherOperation, ROUTES, urlPattern } from "./routes.ts";
import type { Sealing } from "./sealing/sealing.ts";
import type { Stats } from "./stats/stats.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { Translator } from "./translation/translator.ts";
import { timeoutsOf } from "./upstream/call/timeouts.ts";
import type { ClusterManager } from "./upstream/cluster-manager.ts";
import { ContinuationRoom, continuationBytes } from "./upstream/continuation/continuation-room.ts";
import { KEPT_SHARE_OF_KEY } from "./upstream/continuation/continuation-settings.ts";
import { Router } from "./upstream/router.ts";
import type { KeyUsage } from "./usage/key-usage.ts";

/** Networks whose failed authentications are counted. */
const MAX_FAILING_NETWORKS = 10_000;

export type GatewayDeps = {
  readonly config: GatewayConfig;
  readonly keys: KeyStore;
  /** Verifies tokens that are accepted instead of keys. Default: none are. */
  readonly tokens?: TokenVerifier | undefined;
  readonly limitStore: LimitStore;
  readonly usage: KeyUsage;
  readonly clusters: ClusterManager;
  readonly sealing: Sealing;
  readonly stats: Stats;
  readonly clock: Clock;
  readonly log: Logger;
  /** Default: traces are not exported. */
  readonly tracing?: Tracing | undefined;
  /** Certificates of the public listener, which follow their files until it is closed. Default: plain text. */
  readonly tls?: FollowedPems | undefined;
  /** Certificates of the gRPC listener. Default: plain text, if it is configured. */
  readonly grpcTls?: FollowedPems | undefined;
  /** Aborted when running answers must end now. */
  readonly hardStop: AbortSignal;
};

/** The public API, which does not listen yet, and its parts for the admin port. */
export type GatewayServer = {
  readonly app: FastifyInstance;
  readonly sockets: SocketTable;
  /** The gRPC listener, which does not listen yet; undefined if it is not configured. */
  readonly grpc: GrpcListener | undefined;
  readonly limiter: Limiter;
  readonly overload: OverloadManager;
  /** Traffic of the clusters, with their queues. */
  readonly traffic: Router["traffic"];
};

/** Fraction of the kept answers' memory that is freed per overload check while memory is short. */
const LET_GO_SHARE = 0.25;
/** Least milliseconds between two log lines about answers that cannot be kept or were dropped. */
const LACK_SAID_MS = 60_000;

/** The hooks of every route that requires a key. */
type Gates = {
  readonly auth: AuthDeps;
  readonly limits: RateLimitDeps;
  readonly overload: OverloadManager;
  readonly bodies: BodyLimits;
};

type Route = (typeof ROUTES)[number];

/** Returns the handler of a route. */
type HandlerOf = (spec: Route) => RouteHandlerMethod;

/** Builds the public API: its hooks and contexts are registered in the order in which a request passes them. */
export function buildServer(deps: GatewayDeps): GatewayServer {
  const { config, keys, stats, clock, log, tracing, limitStore } = deps;
  const { xffNumTrustedHops: trustedHops, accessLog } = config;
  const sampled = () => 100 * Math.random() < accessLog.percentSampled;
  const sinks: RecordSinks = { log, stats, clock, tracing, trustedHops, sampled };
  const { app, sockets } = publicApp(timeoutsOf(config.timeouts), sinks, deps.tls);
  const overload = new OverloadManager(config.overloadManager, clock, ({ action, active, pressures }) => {
    if (active) log.warn({ action, pressures }, "overload action started");
    else log.info({ action, pressures }, "overload action ended");
  });
  app.server.once("close", () => {
    overload.close();
    deps.tls?.close();
  });
  limitConnections(app, deps);
  registerOverloadStats(stats.registry, overload);
  const bodies: BodyLimits = {
    maxBodyBytes: config.maxBodyBytes,
    overload,
    random: Math.random,
  };
  receiveBodies(app, bodies);
  refuseUnclearRequests(app);
  // The path decides the reply, whatever the body is; and bodies of strangers are not read.
  app.addHook("onRequest", (request, reply, done) => {
    if (request.is404) answerNotFound(request, reply);
    else done();
  });
  useEnvelope(app, "a");

  const { headerPrefix, ...settings } = config.limits;
  const limiter = new Limiter({ store: limitStore, ...settings });
  const limits: RateLimitDeps = { limiter, clock, headerPrefix, stats, usage: deps.usage };
  const perMinute = config.auth.maxFailuresPerMinute;
  const failures = new TokenBuckets({ rule: { perMinute, capacity: perMinute }, max: MAX_FAILING_NETWORKS, clock });
  const translator = newTranslator(deps);
  const models = new ModelDirectory(config.catalog, deps.clusters);
  app.addHook("onClose", () => translator.close());
  const queue = new FlushQueue({ maxJoinMs: config.stream.maxJoinMs, clock });
  const translation = { translator, models, overload, random: Math.random, joinMs: () => queue.holdMs() };
  const answering = { ...answeringParts(deps, limits, translation), queue };
  const auth = { keys, tokens: deps.tokens, failures, trustedHops, stats };
  const handlerOf = handlers(deps, answering);
  registerRoutes(app, handlerOf, ({ use }) => use === "open");
  serveTryItPage(app, config.tryIt);
  registerKeyedRoutes(app, handlerOf, { auth, limits, overload, bodies });
  const grpc = grpcListener(deps, { ...answering, auth, bodies, sinks });
  return { app, sockets, grpc, limiter, overload, traffic: answering.router.traffic };
}

/** Makes the gRPC listener, from the same parts as the public API; undefined if it is not configured. */
function grpcListener(
  { config: { grpc: settings }, grpcTls: tls, stats, clock, log }: GatewayDeps,
  parts: Omit<GrpcListenerDeps, "settings" | "tls" | "cap">,
): GrpcListener | undefined {
  if (!settings) return undefined;
  const cap = { log, clock, onRefused: () => stats.connectionOverflow.inc() };
  return new GrpcListener({ ...parts, settings, tls, cap });
}

/** Limits the connections of callers, as configured or by the descriptors of the process. */
function limitConnections(app: FastifyInstance, { config, stats, clock, log }: GatewayDeps): void {
  const { maxActiveDownstreamConnections } = config.overloadManager.resourceMonitors.globalDownstreamMaxConnections;
  const openFiles = openFilesLimit();
  const most = maxActiveDownstreamConnections ?? (openFiles && connectionsFor(openFiles));
  if (most === undefined) {
    log.warn("the limit of open files is unknown: connections are not limited");
    return;
  }
  log.info({ maxConnections: most, openFiles }, "connections are limited");
  if (openFiles !== undefined && most >= openFiles)
    log.warn({ maxConnections: most, openFiles }, "the connection limit exceeds the limit of open files");
  capConnections(app.server, most, { log, clock, onRefused: () => stats.connectionOverflow.inc() });
}

/** Makes the parts that answer requests of both listeners: the router of upstream calls, and the running answers. */
function answeringParts(deps: GatewayDeps, limits: RateLimitDeps, translation: TranslationDeps) {
  const { config, stats, clock } = deps;
  const router = newRouter(deps, translation.overload);
  const running = new RunningAnswers(clock, (keyId) => deps.keys.mustEnd(keyId));
  onAbort(deps.hardStop, () => running.stop());
  deps.keys.onChange(() => running.keysChanged());
  return { router, running, translation, limits, clock, stats, timeouts: timeoutsOf(config.timeouts) };
}

function handlers(
  { config, sealing }: GatewayDeps,
  answering: ReturnType<typeof answeringParts> & Pick<GenerateRouteDeps, "queue">,
): HandlerOf {
  const { translation } = answering;
  const { brokenStream } = config.formats;
  const generation = { ...answering, sealing, brokenStream, cacheHeader: config.cacheHeader };
  const others: Readonly<Record<OtherOperation, RouteHandlerMethod>> = {
    list_models: listModels(translation.models),
    get_model: getModel(translation.models),
    get_contract: contractRoute(config.catalog),
    probe: async (_request, reply) => reply.code(200).send(),
  };
  return (spec) => {
    if (spec.use === "generation") return generateRoute(spec.format, generation);
    return spec.use === "count" ? countTokensRoute(spec.format, generation) : others[spec.operation];
  };
}

/** Makes the translator of bodies; each bug that it finds is logged. */
function newTranslator({ config, clusters, sealing, clock, log }: GatewayDeps): Translator {
  return new Translator({
    sealing,
    catalog: config.catalog,
    acceptsImages: (model) => clusters.cluster(model)?.acceptsImages ?? false,
    promptBounds: (model) => clusters.cluster(model)?.promptBounds ?? [],
    settings: {
      strictAlternation: config.formats.strictAlternation,
      unreadableContent: config.formats.unreadableContent,
      systemRole: config.formats.messages.systemRole,
      unsupportedTools: config.formats.responses.unsupportedTools,
    },
    clock,
    onFault: (fault) => log.error({ fault }, "a body could not be translated because of a bug"),
  });
}

/** Makes the store of kept answers, which are dropped while memory is short. Both kinds of shortage are logged. */
function newContinuationRoom({ config, clock, log }: GatewayDeps, overload: OverloadManager): ContinuationRoom {
  const { maxBytes } = config.continuation;
  const room: ContinuationRoom = new ContinuationRoom({
    maxBytes: maxBytes ?? continuationBytes(overload.maxRssBytes),
    maxShareOfKey: KEPT_SHARE_OF_KEY,
    inTrouble: () => overload.isActive("releaseKeptAnswers"),
    onFull: () => sayFull(undefined),
  });
  const sayFull = atMostEvery(clock, LACK_SAID_MS, (_: undefined, times) =>
    log.warn(
      { times, kept: room.answers, bytes: room.bytes, maxBytes: room.maxBytes },
      "continuation.maxBytes is used up: further answers fail with their engine",
    ),
  );
  const sayLetGo = atMostEvery(clock, LACK_SAID_MS, (answers: number) =>
    log.warn(
      { answers, kept: room.answers, bytes: room.bytes },
      "memory is short: the largest kept answers were dropped, and fail with their engine",
    ),
  );
  overload.onLook(() => {
    const answers = overload.isActive("releaseKeptAnswers") ? room.letGoOf(LET_GO_SHARE) : 0;
    if (answers > 0) sayLetGo(answers);
  });
  return room;
}

function newRouter(deps: GatewayDeps, overload: OverloadManager): Router {
  const { config, clusters, clock, stats } = deps;
  const room = newContinuationRoom(deps, overload);
  const router = new Router({
    clusters,
    clock,
    timeouts: timeoutsOf(config.timeouts),
    ...config.retry,
    room,
    random: Math.random,
    stats: stats.upstream,
  });
  registerTrafficStats(stats.registry, router.traffic);
  registerContinuationStats(stats.registry, room);
  return router;
}

/**
 * Registers one context for each envelope: all errors inside it, including those of hooks and parsers, use this
 * envelope.
 */
function registerKeyedRoutes(app: FastifyInstance, handlerOf: HandlerOf, gates: Gates): void {
  for (const envelope of ENVELOPES)
    app.register(async (context) => {
      useEnvelope(context, envelope);
      // From the key to the body, cheapest refusal first.
      requireKey(context, gates.auth);
      if (envelope === "b") takeApiVersion(context);
      // An overloaded process sends no request to the limit store, and has no charge to refund for refused requests.
      shedRequests(context, gates.overload, Math.random);
      limitRequests(context, gates.limits);
      limitBodies(context, gates.bodies);
      registerRoutes(context, handlerOf, (spec) => spec.use !== "open" && spec.envelope === envelope);
    });
}

function registerRoutes(context: FastifyInstance, handlerOf: HandlerOf, chosen: (spec: Route) => boolean): void {
  for (const spec of ROUTES.filter(chosen))
    context.route({ url: urlPattern(spec), method: [...spec.methods], config: { spec }, handler: handlerOf(spec) });
}
