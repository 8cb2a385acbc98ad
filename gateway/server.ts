import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import type { Logger } from "pino";
import type { FollowedPems } from "../deploy/runtime/files/followed-file.ts";
import { atMostEvery } from "../deploy/runtime/log/process-log.ts";
import { onAbort } from "../deploy/runtime/time/abort.ts";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import type { Catalog } from "./catalog.ts";
import type { GatewayConfig } from "./config.ts";
import { GrpcListener } from "./grpc/grpc-listener.ts";
import { ModelDirectory } from "./http/access/model-directory.ts";
import { registerOverloadGauges, registerSocketGauges, registerTrafficGauges } from "./http/admin/gauges.ts";
import { getContract, getModel, listModels } from "./http/answer/catalog-routes.ts";
import { countTokensRoute } from "./http/answer/count-tokens-route.ts";
import { type GenerateRouteDeps, generateRoute } from "./http/answer/generate-route.ts";
import { RunningAnswers } from "./http/answer/running-answers.ts";
import type { BodyLimits } from "./http/body/request-body.ts";
import { capConnections, connectionsFor, openFilesLimit } from "./http/connection/connection-cap.ts";
import { publicApp } from "./http/connection/public-app.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import { type HandlerOf, routeRequests } from "./http/hooks.ts";
import type { RecordSinks } from "./http/record/access-log.ts";
import { serveTryItPage } from "./http/try-it/try-it-page.ts";
import { KeptConversations } from "./http/websocket/kept-conversations.ts";
import { SocketUpgrades } from "./http/websocket/socket-upgrades.ts";
import type { KeyStore } from "./keys/key-store.ts";
import type { TokenVerifier } from "./keys/tokens/token-verifier.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { Limiter } from "./limits/limiter.ts";
import { TokenBuckets } from "./limits/token-bucket.ts";
import { OverloadManager } from "./overload/overload-manager.ts";
import type { OtherOperation } from "./routes.ts";
import type { Sealing } from "./sealing/sealing.ts";
import type { Stats } from "./stats/stats.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { Translator } from "./translation/translator.ts";
import { timeoutsOf } from "./upstream/call/timeouts.ts";
import type { ClusterManager } from "./upstream/cluster/cluster-manager.ts";
import { ContinuationBudget, continuationBytes } from "./upstream/continuation/continuation-budget.ts";
import { Router } from "./upstream/router.ts";
import type { KeyUsage } from "./usage/key-usage.ts";

/** Requests without a valid key from one network before the further ones of a minute lose their connection. */
const FAILURES = { perMinute: 20, capacity: 20 };
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
  /** Returns whether the gateway should receive requests, as `/readyz` says. */
  readonly isLive: () => boolean;
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
  readonly webSockets: SocketUpgrades;
  /** The gRPC listener, which does not listen yet; undefined if it is not configured. */
  readonly grpc: GrpcListener | undefined;
  readonly limiter: Limiter;
  readonly overload: OverloadManager;
  /** Traffic of the clusters, with their queues. */
  readonly traffic: Router["traffic"];
};

/** Fraction of the kept answers' memory, and of that of conversations, that is freed per check while memory is short. */
const RELEASED_SHARE = 0.25;
/** Least milliseconds between two log lines about answers that cannot be kept or were dropped. */
const LACK_LOG_INTERVAL_MS = 60_000;

/** Builds the public API and the gRPC listener from the same parts. */
export function buildServer(deps: GatewayDeps): GatewayServer {
  const { config, keys, tokens, clusters, sealing, stats, clock, log, tracing, limitStore, usage } = deps;
  const { xffNumTrustedHops: trustedHops, maxBodyBytes, catalog, cacheHeader } = config;
  const { brokenStream } = config.formats;
  const random = Math.random;
  const timeouts = timeoutsOf(config.timeouts);
  const sinks: RecordSinks = { log, stats, clock, tracing, trustedHops };
  const { app, sockets } = publicApp(timeouts, sinks, deps.tls);
  const mostConnections = limitConnections(app, deps);
  const overload = newOverloadManager(deps);
  const failures = new TokenBuckets(FAILURES, MAX_FAILING_NETWORKS, clock);
  const auth = { keys, tokens, failures, stats };
  const limiter = new Limiter(limitStore);
  const limits = { limiter, clock, stats, usage };
  const bodies: BodyLimits = { maxBodyBytes, overload, random };

  const models = new ModelDirectory(catalog, clusters);
  const translator = newTranslator(deps);
  const translation = { translator, models, overload, random };
  const continuationBudget = newContinuationBudget(deps, overload);
  const router = new Router({ clusters, clock, timeouts, continuationBudget, random, stats: stats.upstream });
  registerTrafficGauges(stats, router.traffic, continuationBudget);
  const running = new RunningAnswers(clock, (keyId) => keys.mustEnd(keyId));
  onAbort(deps.hardStop, () => running.stop());
  keys.onChange(() => running.keysChanged());
  const answering = {
    ...{ router, running, translation, limits, clock, stats, timeouts, sealing },
    ...{ cacheHeader, brokenStream },
  };

  routeRequests(app, handlersOf({ catalog, models, isLive: deps.isLive }, answering), {
    ...{ auth, limits, overload, bodies },
    allowOrigins: config.listen.allowOrigins,
  });
  serveTryItPage(app, config.tryIt);
  const kept = newKeptConversations(overload);
  const webSockets = new SocketUpgrades(app.server, sockets, { ...answering, auth, bodies, sinks, kept });
  registerSocketGauges(stats, webSockets, kept);
  const grpc =
    config.grpc &&
    new GrpcListener({
      ...{ ...answering, auth, bodies, sinks },
      ...{ settings: config.grpc, tls: deps.grpcTls, cap: capSinks(deps), mostConnections },
    });
  app.addHook("onClose", () => translator.close());
  app.server.once("close", () => {
    overload.close();
    deps.tls?.close();
  });
  return { app, sockets, webSockets, grpc, limiter, overload, traffic: router.traffic };
}

/** Makes the overload manager, whose actions are logged. */
function newOverloadManager({ config, clock, log, stats }: GatewayDeps): OverloadManager {
  const overload = new OverloadManager(config.overloadManager, clock, ({ action, active, pressures }) => {
    if (active) log.warn({ action, pressures }, "overload action started");
    else log.info({ action, pressures }, "overload action ended");
  });
  registerOverloadGauges(stats, overload);
  return overload;
}

function capSinks({ log, clock, stats }: GatewayDeps) {
  return { log, clock, onRefused: () => stats.connectionOverflow.inc() };
}

/** Limits the connections of callers, as configured or by the descriptors of the process. Returns the limit. */
function limitConnections(app: FastifyInstance, deps: GatewayDeps): number {
  const { config, log } = deps;
  const { maxActiveDownstreamConnections } = config.overloadManager.resourceMonitors.globalDownstreamMaxConnections;
  const openFiles = openFilesLimit();
  const most = maxActiveDownstreamConnections ?? (openFiles && connectionsFor(openFiles));
  if (most === undefined) {
    log.warn("the limit of open files is unknown: connections are not limited");
    return Number.POSITIVE_INFINITY;
  }
  log.info({ maxConnections: most, openFiles }, "connections are limited");
  if (openFiles !== undefined && most >= openFiles)
    log.warn({ maxConnections: most, openFiles }, "the connection limit exceeds the limit of open files");
  capConnections(app.server, most, capSinks(deps));
  return most;
}

type Facts = Pick<GatewayDeps, "isLive"> & { readonly catalog: Catalog; readonly models: ModelDirectory };

function handlersOf({ catalog, models, isLive }: Facts, answering: GenerateRouteDeps): HandlerOf {
  const others: Readonly<Record<OtherOperation, RouteHandlerMethod>> = {
    list_models: listModels(models),
    get_model: getModel(models),
    get_contract: getContract(catalog),
    health: async (_request, reply) => reply.code(isLive() ? 200 : 503).send(),
    probe: async (_request, reply) => reply.code(200).send(),
  };
  return (spec) => {
    if (spec.use === "generation") return generateRoute(spec.format, answering);
    return spec.use === "count" ? countTokensRoute(spec.format, answering) : others[spec.operation];
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
    restoresTools: config.formats.leftOutTools === "restore",
    clock,
    onFault: (fault) => log.error({ fault }, "a body could not be translated because of a bug"),
  });
}

/** Makes the store of the conversations of WebSockets, which are dropped while memory is short. */
function newKeptConversations(overload: OverloadManager): KeptConversations {
  const kept = new KeptConversations(overload.bodies);
  overload.onCheck(() => {
    if (overload.isActive("releaseKeptAnswers")) kept.free(RELEASED_SHARE * kept.bytes);
  });
  return kept;
}

/** Makes the store of kept answers, which are dropped while memory is short. Both kinds of shortage are logged. */
function newContinuationBudget({ config, clock, log }: GatewayDeps, overload: OverloadManager): ContinuationBudget {
  const { maxBytes } = config.continuation;
  const continuationBudget: ContinuationBudget = new ContinuationBudget({
    maxBytes: maxBytes ?? continuationBytes(overload.maxRssBytes),
    inTrouble: () => overload.isActive("releaseKeptAnswers"),
    onFull: () => logFull(undefined),
  });
  const logFull = atMostEvery(clock, LACK_LOG_INTERVAL_MS, (_: undefined, times) =>
    log.warn(
      {
        times,
        kept: continuationBudget.answers,
        bytes: continuationBudget.bytes,
        maxBytes: continuationBudget.maxBytes,
      },
      "continuation.maxBytes is used up: further answers fail with their engine",
    ),
  );
  const logReleased = atMostEvery(clock, LACK_LOG_INTERVAL_MS, (answers: number) =>
    log.warn(
      { answers, kept: continuationBudget.answers, bytes: continuationBudget.bytes },
      "memory is short: the largest kept answers were dropped, and fail with their engine",
    ),
  );
  overload.onCheck(() => {
    const answers = overload.isActive("releaseKeptAnswers") ? continuationBudget.releaseShare(RELEASED_SHARE) : 0;
    if (answers > 0) logReleased(answers);
  });
  return continuationBudget;
}
