import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import type { Logger } from "pino";
import type { FollowedPems } from "../deploy/runtime/files/followed-pems.ts";
import { atMostEvery } from "../deploy/runtime/log/at-most-every.ts";
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
import { AuthFailures } from "./limits/auth-failures.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { Limiter } from "./limits/limiter.ts";
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

/** What the public API is built from. */
export type GatewayDeps = {
  /** The configuration of the gateway. */
  readonly config: GatewayConfig;
  /** The keys that are in force. */
  readonly keys: KeyStore;
  /** Knows the tokens that are taken in the place of keys. Default: none are. */
  readonly tokens?: TokenVerifier | undefined;
  /** The store that counts what keys use of their limits. */
  readonly limitStore: LimitStore;
  /** Counts what keys use. */
  readonly usage: KeyUsage;
  /** The clusters that serve the models. */
  readonly clusters: ClusterManager;
  /** Seals texts for callers to carry. */
  readonly sealing: Sealing;
  /** The statistics in which requests count. */
  readonly stats: Stats;
  /** The clock of everything that waits, times or dates requests. */
  readonly clock: Clock;
  /** The log that gets a line for each request. */
  readonly log: Logger;
  /** Exports traces. Default: none is exported. */
  readonly tracing?: Tracing | undefined;
  /** The certificates of the public listener, which follow their files until it is closed. Default: it speaks plain text. */
  readonly tls?: FollowedPems | undefined;
  /** The certificates of the listener for gRPC clients. Default: it speaks plain text, where there is one. */
  readonly grpcTls?: FollowedPems | undefined;
  /** The signal that is aborted when running answers must end now. */
  readonly hardStop: AbortSignal;
};

/** The public API, built but not listening yet, and those of its parts that the admin port shows. */
export type GatewayServer = {
  /** The server, which does not listen yet. */
  readonly app: FastifyInstance;
  /** The connections of the server. */
  readonly sockets: SocketTable;
  /** The listener for gRPC clients, which does not listen yet; undefined where none is configured. */
  readonly grpc: GrpcListener | undefined;
  /** Knows what keys have used of their limits. */
  readonly limiter: Limiter;
  /** Knows the resources of the process and what is done about them. */
  readonly overload: OverloadManager;
  /** The traffic of the clusters, with their queues. */
  readonly traffic: Router["traffic"];
};

/** The share of what is kept of running answers that is let go of at each look while memory is short. */
const LET_GO_SHARE = 0.25;
/** The time between two lines that say that answers find no room, or were let go of, at least, in milliseconds. */
const LACK_SAID_MS = 60_000;

/** The hooks that a request has to pass on every route that asks for a key. */
type Gates = {
  readonly auth: AuthDeps;
  readonly limits: RateLimitDeps;
  readonly overload: OverloadManager;
  readonly bodies: BodyLimits;
};

type Route = (typeof ROUTES)[number];

/** Finds the handler that answers the requests of a route. */
type HandlerOf = (spec: Route) => RouteHandlerMethod;

/** Builds the public API: its hooks and contexts stand in the order in which a request meets them. */
export function buildServer(deps: GatewayDeps): GatewayServer {
  const { config, keys, stats, clock, log, tracing, limitStore } = deps;
  const { xffNumTrustedHops: trustedHops, accessLog } = config;
  const sampled = () => 100 * Math.random() < accessLog.percentSampled;
  const sinks: RecordSinks = { log, stats, clock, tracing, trustedHops, sampled };
  const { app, sockets } = publicApp(timeoutsOf(config.timeouts), sinks, deps.tls);
  const overload = new OverloadManager(config.overloadManager, clock, ({ action, active, pressures }) => {
    if (active) log.warn({ action, pressures }, "an action against overload begins");
    else log.info({ action, pressures }, "an action against overload ends");
  });
  app.server.once("close", () => {
    overload.close();
    deps.tls?.close();
  });
  limitConnections(app, deps);
  registerOverloadStats(stats.registry, overload);
  const bodies: BodyLimits = {
    maxBodyBytes: config.maxBodyBytes,
    json: config.jsonLimits,
    overload,
    random: Math.random,
  };
  receiveBodies(app, bodies);
  refuseUnclearRequests(app);
  // Whatever the body is, the path is what the caller has to hear of; and it is not read from just anybody.
  app.addHook("onRequest", (request, reply, done) => {
    if (request.is404) answerNotFound(request, reply);
    else done();
  });
  useEnvelope(app, "a");

  const { headerPrefix, ...settings } = config.limits;
  const limiter = new Limiter({ store: limitStore, ...settings });
  const limits: RateLimitDeps = { limiter, clock, headerPrefix, stats, usage: deps.usage };
  const failures = new AuthFailures(config.auth.maxFailuresPerMinute, clock);
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

/** Makes the listener for gRPC clients, of the same parts as the public API; undefined where none is configured. */
function grpcListener(
  { config: { grpc: settings }, grpcTls: tls, stats, clock, log }: GatewayDeps,
  parts: Omit<GrpcListenerDeps, "settings" | "tls" | "cap">,
): GrpcListener | undefined {
  if (!settings) return undefined;
  const cap = { log, clock, onRefused: () => stats.connectionOverflow.inc() };
  return new GrpcListener({ ...parts, settings, tls, cap });
}

/** Caps the connections of callers, as configured or as the descriptors of the process allow. */
function limitConnections(app: FastifyInstance, { config, stats, clock, log }: GatewayDeps): void {
  const { maxActiveDownstreamConnections } = config.overloadManager.resourceMonitors.globalDownstreamMaxConnections;
  const openFiles = openFilesLimit();
  const most = maxActiveDownstreamConnections ?? (openFiles && connectionsFor(openFiles));
  if (most === undefined) {
    log.warn("the system does not tell how many files may be open: connections are not limited");
    return;
  }
  log.info({ maxConnections: most, openFiles }, "connections are limited");
  if (openFiles !== undefined && most >= openFiles)
    log.warn({ maxConnections: most, openFiles }, "more connections may be open than files");
  capConnections(app.server, most, { log, clock, onRefused: () => stats.connectionOverflow.inc() });
}

/** Makes the parts that answer requests, however these came: the router of upstream calls, and what runs. */
function answeringParts(deps: GatewayDeps, limits: RateLimitDeps, translation: TranslationDeps) {
  const { config, stats, clock } = deps;
  const router = newRouter(deps, translation.overload);
  const running = new RunningAnswers(clock, (keyId) => deps.keys.mustEnd(keyId));
  onAbort(deps.hardStop, () => running.stop());
  deps.keys.onChange(() => running.keysChanged());
  return { router, running, translation, limits, clock, stats, timeouts: timeoutsOf(config.timeouts) };
}

/** Makes the handlers of all routes. */
function handlers(
  { config, sealing }: GatewayDeps,
  answering: ReturnType<typeof answeringParts> & Pick<GenerateRouteDeps, "queue">,
): HandlerOf {
  const { translation } = answering;
  const { chat, messages, responses } = config.formats;
  const brokenStreams = {
    chat: chat.brokenStream,
    messages: messages.brokenStream,
    responses: responses.brokenStream,
  };
  const generation = { ...answering, sealing, brokenStreams, cacheHeader: config.cacheHeader };
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

/** Makes the translator of bodies, with a line in the log for each fault of ours that one brings to light. */
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
      reasoningField: config.formats.chat.reasoningField,
      unsupportedTools: config.formats.responses.unsupportedTools,
    },
    limits: config.jsonLimits,
    clock,
    onFault: (fault) => log.error({ fault }, "a body could not be translated: a fault of this program"),
  });
}

/** Makes the room of kept answers, which are let go of while memory is short. The log tells of both kinds of lack. */
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
      "continuation.maxBytes is used up: answers that find no room fail with their engine",
    ),
  );
  const sayLetGo = atMostEvery(clock, LACK_SAID_MS, (answers: number) =>
    log.warn(
      { answers, kept: room.answers, bytes: room.bytes },
      "memory is short: the largest kept answers were let go of, and fail with their engine",
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

/** Registers one context for each envelope: whatever is thrown inside, by hooks and parsers too, is answered in it. */
function registerKeyedRoutes(app: FastifyInstance, handlerOf: HandlerOf, gates: Gates): void {
  for (const envelope of ENVELOPES)
    app.register(async (context) => {
      useEnvelope(context, envelope);
      // From the key to the body, cheapest refusal first.
      requireKey(context, gates.auth);
      if (envelope === "b") takeApiVersion(context);
      // A process in trouble asks no store of limits, and has nothing to give back to whom it turns away.
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
