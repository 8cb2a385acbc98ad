import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { ConfigError } from "../deploy/runtime/config/load-config.ts";
import { type FollowedPems, PemError } from "../deploy/runtime/files/followed-file.ts";
import { FileError } from "../deploy/runtime/files/private-file.ts";
import { packageVersion } from "../deploy/runtime/files/project-folder.ts";
import { followTls } from "../deploy/runtime/grpc/server-tls.ts";
import { atMostEvery, logWarnings, processLog } from "../deploy/runtime/log/process-log.ts";
import { certificateEnds } from "../deploy/runtime/metrics/certificate-ends.ts";
import { isLoopback } from "../deploy/runtime/net/loopback.ts";
import { endOnCrash } from "../deploy/runtime/process/end-on-crash.ts";
import { measureYoungGeneration } from "../deploy/runtime/process/heap-use.ts";
import { StopOrders } from "../deploy/runtime/process/stop-orders.ts";
import { untilAborted, waitUnlessAborted } from "../deploy/runtime/time/abort.ts";
import { systemClock } from "../deploy/runtime/time/clock.ts";
import type { TracingConfig } from "../deploy/runtime/tracing/tracing-schema.ts";
import type { GatewayConfig } from "./config.ts";
import { drainOnOrder } from "./drain.ts";
import type { GrpcListener } from "./grpc/grpc-listener.ts";
import { AdminToken, AdminTokenError, openAdminTls } from "./http/admin/admin-access.ts";
import { type AdminDeps, buildAdmin, buildHealth } from "./http/admin/admin-server.ts";
import { engineOwner } from "./http/admin/engine-owner.ts";
import { FleetView } from "./http/admin/fleet-view.ts";
import { registerClusterGauges, registerSealingGauges } from "./http/admin/gauges.ts";
import type { Listener } from "./http/admin/server-routes.ts";
import { Lifecycle } from "./lifecycle.ts";
import { FollowedSealing } from "./sealing/followed-sealing.ts";
import { Sealing } from "./sealing/sealing.ts";
import { SealingKeyError } from "./sealing/sealing-key.ts";
import { buildServer, type GatewayServer } from "./server.ts";
import { openShared } from "./shared-parts.ts";
import { Stats } from "./stats/stats.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { ClusterManager } from "./upstream/cluster/cluster-manager.ts";
import { EndpointOrders } from "./upstream/endpoint-orders.ts";

/** Least milliseconds between two log lines about unknown sealing keys: callers can make them up. */
const UNKNOWN_KEY_SAID_MS = 60_000;

/** Lines of the log that the admin page shows. */
const MAX_WARNINGS = 20;

/** The sealing of a gateway, with the watcher of its file. */
type OpenSealing = { readonly sealing: Sealing; close(): void };

/** Runs the gateway until it has stopped and drained. Resolves to the exit code. */
export async function runGateway(config: GatewayConfig): Promise<number> {
  const clock = systemClock;
  const stats = openStats(config);
  const warnings: string[] = [];
  const log = openLog(config, stats, warnings);
  const { lifecycle, crashed } = beginLife(log);
  await measureYoungGeneration();
  const { close: closeShared, state, keysLoaded, ...shared } = await openShared(config, stats, log);
  const sealing = await openSealing(config.sealingKeyFile, stats, log);
  const clusters = new ClusterManager(config.clusters, clock, log, config.upstream);
  const orders = await EndpointOrders.open(clusters, state, systemClock);
  registerClusterGauges(stats, clusters);
  const tracing = config.tracing && (await loadTracing(config.tracing, log));
  const callersTls = openCallersTls(config, log);
  const common = { config, ...shared, clusters, sealing: sealing.sealing, stats, clock, log };
  const { app, sockets, webSockets, grpc, limiter, overload, traffic } = buildServer({
    ...{ ...common, tracing, ...callersTls, hardStop: lifecycle.hardStop },
    isLive: () => lifecycle.state(clusters.ready) === "LIVE",
  });
  const facts = { lifecycle, overload, version: packageVersion(), owner: engineOwner() };
  const connections = () => sockets.open;
  const fleet = new FleetView({ ...common, ...facts, traffic, connections, warnings: () => warnings });
  const listeners: Listener[] = [];
  const access = await openAccess(config, log);
  stats.read({
    svc_tls_certificate_expiry_timestamp_seconds: () => {
      const own = [callersTls.tls?.now, callersTls.grpcTls?.now, access.tls?.pems, ...clusters.certificates];
      const peers = clusters.endpoints.flatMap(({ wire }) => wire.peerEndsMs ?? []);
      return certificateEnds(
        own.flatMap((one) => one ?? []),
        peers,
      );
    },
  });
  const adminDeps: AdminDeps = {
    ...{ ...common, ...facts, ...access, fleet, orders, webSockets, limiter },
    listeners: () => listeners.filter(({ name }) => name !== "public" || app.server.listening),
  };
  const apps = { admin: buildAdmin(adminDeps), ...(config.health && { health: buildHealth(adminDeps) }) };
  listeners.push(...(await listenToOperators(apps, config)));
  // Without keys every caller would get a 401.
  await Promise.race([keysLoaded, untilAborted(lifecycle.stop)]);
  if (config.listen.enableReusePort) await untilServing(clusters, lifecycle.stop);
  if (!lifecycle.stop.aborted) {
    listeners.push(...(await listenToCallers(app, config, grpc)));
    lifecycle.listening();
    announce(listeners, log);
    await drainOnOrder({ config, lifecycle, server: app.server, sockets, webSockets, grpc, clock, log });
  }
  for (const part of [apps.admin, apps.health, access, fleet, orders, clusters, sealing, tracing]) await part?.close();
  await closeShared();
  log.info("stopped");
  return Number(crashed());
}

/** Makes the statistics, with the counts of all configured clusters at 0. */
function openStats({ clusters }: GatewayConfig): Stats {
  const stats = new Stats();
  stats.startAtZero(clusters.map(({ model }) => model));
  return stats;
}

/** Makes the log; `warnings` holds its last warnings and errors. */
function openLog({ log: { level, format } }: GatewayConfig, stats: Stats, warnings: string[]): Logger {
  const onWarning = (line: string) => {
    if (warnings.push(line) > MAX_WARNINGS) warnings.shift();
  };
  const log = processLog({ level, format, base: null, onDrop: () => stats.logLinesDropped.inc(), onWarning });
  logWarnings(log);
  return log;
}

/** The OpenTelemetry SDK is loaded only if traces are exported. */
async function loadTracing(config: TracingConfig, log: Logger): Promise<Tracing> {
  const { startTracing } = await import("./tracing/span-export.ts");
  return startTracing(config, log, systemClock.nowMs);
}

/** Opens the sealing with the keys in `file`, which is followed, or with a temporary key. Throws `ConfigError`. */
async function openSealing(file: string | undefined, stats: Stats, log: Logger): Promise<OpenSealing> {
  const onUnknownKey = atMostEvery(systemClock, UNKNOWN_KEY_SAID_MS, (id: string) =>
    log.warn(
      { sealingKeyId: id, sealingKeyIds: opened.sealing.keyIds },
      "a caller's reasoning names an unknown sealing key, and was omitted; do all gateways share sealingKeyFile?",
    ),
  );
  const opened: OpenSealing =
    file === undefined
      ? { sealing: new Sealing(undefined, onUnknownKey), close() {} }
      : await followSealing(file, log, onUnknownKey);
  registerSealingGauges(stats, opened.sealing);
  if (file === undefined)
    log.warn("no sealingKeyFile: other gateways, and this one after a restart, cannot read its sealed reasoning");
  return opened;
}

async function followSealing(file: string, log: Logger, onUnknownKey: (id: string) => void): Promise<OpenSealing> {
  try {
    const followed: FollowedSealing = await FollowedSealing.open({
      file,
      clock: systemClock,
      onUnknownKey,
      onReload(fault) {
        if (fault) log.error({ fault }, "the sealing keys cannot be used; the last good ones stay");
        else log.info({ sealingKeyIds: followed.sealing.keyIds }, "sealing keys loaded");
      },
    });
    return followed;
  } catch (cause) {
    if (cause instanceof FileError || cause instanceof SealingKeyError)
      throw new ConfigError(`sealingKeyFile: ${cause.message}`, { cause });
    throw cause;
  }
}

/** Makes the lifecycle, which signals and crashes end. `crashed` returns whether a crash did. */
function beginLife(log: Logger) {
  const orders = new StopOrders(systemClock.nowMs);
  orders.obeySignals();
  const lifecycle = new Lifecycle(orders);
  const crashed = endOnCrash(() => {
    // A faulty process accepts no more requests, whatever reported the fault.
    lifecycle.drainListeners(false);
    lifecycle.quit();
  }, log);
  return { lifecycle, crashed };
}

/**
 * Opens remote access to the admin port. Throws `ConfigError` if a file is unusable, and warns if the port is reachable
 * from other machines and not secured.
 */
async function openAccess({ admin }: GatewayConfig, log: Logger) {
  const { tokenFile, tls: files } = admin;
  const followed = (what: string) => (fault: string | undefined) => {
    if (fault) log.error({ fault }, `${what} cannot be used; the last good one stays`);
    else log.info(`${what} loaded`);
  };
  try {
    const token =
      tokenFile === undefined
        ? undefined
        : await AdminToken.open(tokenFile, systemClock, followed("the token of the admin port"));
    const tls = files && openAdminTls(files, systemClock, followed("the certificate of the admin port"));
    const proof = { token, certificates: files?.clientCaFile !== undefined };
    warnOfAdmin(admin, log);
    return {
      proof,
      tls,
      close() {
        token?.close();
        tls?.close();
      },
    };
  } catch (cause) {
    if (cause instanceof AdminTokenError) throw new ConfigError(`admin.tokenFile: ${cause.message}`, { cause });
    if (cause instanceof PemError) throw new ConfigError(cause.message, { cause });
    throw cause;
  }
}

function warnOfAdmin({ host, tokenFile, tls }: GatewayConfig["admin"], log: Logger): void {
  if (isLoopback(host)) return;
  if (tokenFile === undefined && tls?.clientCaFile === undefined)
    log.warn({ host }, "the admin port is open to other machines and has no admin.tokenFile: it serves health only");
  else if (tls === undefined)
    log.warn({ host }, "the token of the admin port is sent in plain text: it has no admin.tls");
}

/**
 * Opens the certificates of the public and gRPC listeners, if configured; warns if keys would be sent in plain text.
 * Throws `ConfigError` if a file is unusable.
 */
function openCallersTls({ listen, grpc }: GatewayConfig, log: Logger) {
  if (grpc && !grpc.tls && !isLoopback(grpc.host))
    log.warn({ host: grpc.host }, "gRPC clients on other machines send their keys in plain text: there is no grpc.tls");
  return { tls: openTls(listen, "listen.tls", log), grpcTls: grpc && openTls(grpc, "grpc.tls", log) };
}

/**
 * Opens the certificates of a listener, if configured; `at` is their path in the configuration. Throws `ConfigError` if
 * a file is unusable.
 */
function openTls({ tls }: Pick<GatewayConfig["listen"], "tls">, at: string, log: Logger): FollowedPems | undefined {
  if (!tls) return undefined;
  try {
    return followTls(tls, systemClock, log, at);
  } catch (cause) {
    if (cause instanceof PemError) throw new ConfigError(cause.message, { cause });
    throw cause;
  }
}

/** The listeners for operators; `health` is optional. */
type Apps = { readonly admin: App; readonly health?: App };

type App = GatewayServer["app"];

/** Opens the listeners for operators. They come first: the public listeners must open on a ready gateway. */
async function listenToOperators(apps: Apps, { admin, health }: GatewayConfig): Promise<Listener[]> {
  const listeners: Listener[] = [];
  listeners.push({ name: "admin", address: await listening(apps.admin, admin, admin.tls ? "https" : "http") });
  if (apps.health && health) listeners.push({ name: "health", address: await listening(apps.health, health) });
  return listeners;
}

/** Most milliseconds for which a process that shares its port waits for an endpoint before it takes connections. */
const UNTIL_SERVING_MS = 10_000;

/** Resolves when a model can be served: until then the process that this one replaces takes all connections. */
async function untilServing(clusters: ClusterManager, signal: AbortSignal): Promise<void> {
  if (clusters.ready) return;
  await waitUnlessAborted<void>(signal, (serve) => {
    const stops = clusters.clusters.map((cluster) => cluster.onAvailabilityChange(() => clusters.ready && serve()));
    stops.push(systemClock.after(UNTIL_SERVING_MS, serve));
    return () => {
      for (const stop of stops) stop();
    };
  });
}

/** Opens the listeners for callers, the public one last. */
async function listenToCallers(
  app: App,
  { listen }: GatewayConfig,
  grpc: GrpcListener | undefined,
): Promise<Listener[]> {
  const listeners: Listener[] = [];
  if (grpc) listeners.push({ name: "grpc", address: await grpc.listen().catch(cannotListen) });
  listeners.push({ name: "public", address: await listening(app, listen, listen.tls ? "https" : "http") });
  return listeners;
}

function cannotListen(cause: unknown): never {
  throw new ConfigError("grpc: the address cannot be listened on", { cause });
}

type ListenAddress = { readonly host: string; readonly port: number; readonly enableReusePort?: boolean };

/** Resolves to the URL of `app`. */
async function listening(
  app: App,
  { host, port: wanted, enableReusePort }: ListenAddress,
  scheme = "http",
): Promise<string> {
  const options = { host, port: wanted, ...(enableReusePort && { reusePort: true }) };
  await app.listen(options);
  const { address, family, port } = app.server.address() as AddressInfo;
  return `${scheme}://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

function announce(listeners: readonly Listener[], log: Logger): void {
  const urlOf = (wanted: string) => listeners.find(({ name }) => name === wanted)?.address;
  const healthUrl = urlOf("health");
  const grpcAddress = urlOf("grpc");
  const more = { ...(healthUrl && { healthUrl }), ...(grpcAddress && { grpcAddress }) };
  const ready = { baseUrl: urlOf("public"), adminUrl: String(urlOf("admin")), ...more };
  log.info(ready, "listening");
  process.stdout.write(`ready ${JSON.stringify(ready)}\n`);
}
