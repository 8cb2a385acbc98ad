import cluster from "node:cluster";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { ConfigError } from "../deploy/runtime/config/load-config.ts";
import { FileError } from "../deploy/runtime/files/file-error.ts";
import { packageVersion } from "../deploy/runtime/files/project-folder.ts";
import { logWarnings } from "../deploy/runtime/log/log-warnings.ts";
import { processLog } from "../deploy/runtime/log/process-log.ts";
import { endOnCrash } from "../deploy/runtime/process/end-on-crash.ts";
import { runConfigured } from "../deploy/runtime/process/run-main.ts";
import { StopOrders } from "../deploy/runtime/process/stop-orders.ts";
import { systemClock } from "../deploy/runtime/time/clock.ts";
import type { TracingConfig } from "../deploy/runtime/tracing/tracing-schema.ts";
import { type GatewayConfig, gatewayConfigSchema } from "./config.ts";
import { drainWhenTold } from "./drain.ts";
import { buildAdmin } from "./http/admin/admin-server.ts";
import { registerClusterStats } from "./http/admin/fleet/cluster-stats.ts";
import type { Listener } from "./http/admin/server-routes.ts";
import { FileKeyStore } from "./keys/file-key-store.ts";
import { registerKeyStats } from "./keys/key-stats.ts";
import { isKeyStoreError } from "./keys/key-store-error.ts";
import { Lifecycle } from "./lifecycle.ts";
import type { LimitReply, LimitRequest } from "./limits/limit-message.ts";
import { registerLimitStats } from "./limits/limit-stats.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { MemoryLimitStore } from "./limits/memory-limit-store.ts";
import { processChannel } from "./limits/process-channel.ts";
import { SharedLimitStore } from "./limits/shared-limit-store.ts";
import { FollowedSealing } from "./sealing/followed-sealing.ts";
import { Sealing } from "./sealing/sealing.ts";
import { SealingKeyError } from "./sealing/sealing-key.ts";
import { registerSealingStats } from "./sealing/sealing-stats.ts";
import { buildServer, type GatewayServer } from "./server.ts";
import { Stats } from "./stats/stats.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { ClusterManager } from "./upstream/cluster-manager.ts";
import { Workers } from "./workers.ts";

/**
 * The time between two lines that say that a gateway lacks a sealing key, at least, in milliseconds: every caller may
 * make one up.
 */
const UNKNOWN_KEY_SAID_MS = 60_000;

/** The sealing of a gateway, and what ends the following of its file. */
type OpenSealing = { readonly sealing: Sealing; close(): void };

/** Runs the gateway until it is told to stop and has drained. Resolves to the exit code. */
async function run(config: GatewayConfig): Promise<number> {
  const clock = systemClock;
  const stats = new Stats();
  const log = openLog(config, stats);
  const orders = obeySignals();
  const lifecycle = new Lifecycle(orders);
  const crashed = endOnCrash(() => {
    // A process that is not to be relied on takes nothing more, whoever has noticed.
    lifecycle.drainListeners(false);
    lifecycle.quit();
  }, log);
  const workers = openWorkers(config);

  const keys = await openKeys(config.keys.file, stats, log);
  const sealing = await openSealing(config.sealingKeyFile, stats, log);
  const clusters = new ClusterManager(config.clusters, clock, log);
  registerClusterStats(stats.registry, clusters);
  const tracing = config.tracing && (await loadTracing(config.tracing, log));
  const { app, sockets, limiter, overload } = buildServer({
    config,
    keys,
    limitStore: openLimits(config, stats, log),
    clusters,
    sealing: sealing.sealing,
    stats,
    clock,
    log,
    tracing,
    hardStop: lifecycle.hardStop,
  });
  const listeners: Listener[] = [];
  const admin = buildAdmin({
    config,
    version: packageVersion(),
    listeners: () => listeners.filter(({ name }) => name !== "public" || app.server.listening),
    lifecycle,
    clusters,
    stats,
    keys,
    sealing: sealing.sealing,
    limiter,
    overload,
    connections: () => sockets.open,
    workers,
    log,
    clock,
  });
  // Of several workers each has its own.
  const adminUrl = await listening(admin, { ...config.admin, exclusive: true });
  const baseUrl = await listening(app, config.listen);
  listeners.push({ name: "public", address: baseUrl }, { name: "admin", address: adminUrl });
  if (workers.count === 1) workers.take({ workers: [adminUrl] });
  log.info({ baseUrl, adminUrl }, "listening");
  process.stdout.write(`ready ${JSON.stringify({ baseUrl, adminUrl })}\n`);

  await drainWhenTold({ config, lifecycle, server: app.server, sockets, clock, log });
  await admin.close();
  clusters.close();
  keys.close();
  sealing.close();
  await tracing?.close();
  log.info("stopped");
  return crashed() ? 1 : 0;
}

/** Opens the log. One of several workers names itself in every line. */
function openLog({ log: { level }, worker }: GatewayConfig, stats: Stats): Logger {
  const base = worker ? { worker: worker.index } : null;
  const log = processLog({ level, base, onDrop: () => stats.logLinesDropped.inc() });
  logWarnings(log);
  return log;
}

/** Starts tracing. Only a gateway that exports traces loads the SDK. */
async function loadTracing(config: TracingConfig, log: Logger): Promise<Tracing> {
  const { startTracing } = await import("./tracing/start-tracing.ts");
  return startTracing(config, log, systemClock.nowMs);
}

/** Returns the workers that share the port. A gateway alone is a worker of one. */
function openWorkers({ worker }: GatewayConfig): Workers {
  const workers = new Workers(worker ?? { index: 1, count: 1 });
  if (worker) process.on("message", (message) => workers.take(message));
  return workers;
}

/**
 * Opens the counts of the limits of keys. Whoever starts several workers counts for all of them; a worker that was
 * started by hand counts by itself.
 */
function openLimits({ worker }: GatewayConfig, stats: Stats, log: Logger): LimitStore {
  if (!worker || !cluster.isWorker) return new MemoryLimitStore(systemClock);
  const onSilence = () =>
    log.warn("the limits of keys are counted by this worker alone: the starting process is silent");
  const channel = processChannel<LimitRequest, LimitReply>(process);
  const store = new SharedLimitStore({ channel, clock: systemClock, workers: worker.count, onSilence });
  registerLimitStats(stats.registry, () => store.shared);
  return store;
}

/** Opens the key file, and logs each of its later changes. Throws `ConfigError` if it cannot be used. */
async function openKeys(file: string, stats: Stats, log: Logger): Promise<FileKeyStore> {
  const keys = await readKeys(file);
  keys.onChange(({ keys: count, revision, fault }) => {
    if (fault) log.error({ fault }, "the key file cannot be used; the last good keys stay");
    else log.info({ keys: count, revision }, "keys loaded");
  });
  registerKeyStats(stats.registry, keys);
  return keys;
}

/**
 * Opens the key file. Throws `ConfigError` where there is none: a gateway without keys would refuse everybody, and
 * whoever set it up has to know.
 */
async function readKeys(file: string): Promise<FileKeyStore> {
  try {
    return await FileKeyStore.open({ file, clock: systemClock });
  } catch (error) {
    if (!isKeyStoreError(error)) throw error;
    const hint = error.fault === "missing" ? `; 'npm run keys -- create --file ${file} …' makes one` : "";
    throw new ConfigError(`keys.file: ${error.message}${hint}`, { cause: error });
  }
}

/**
 * Opens the sealing with the keys in `file`, which is followed, or with a key that ends with the process. Throws
 * `ConfigError`.
 */
async function openSealing(file: string | undefined, stats: Stats, log: Logger): Promise<OpenSealing> {
  const onUnknownKey = atMostEvery(UNKNOWN_KEY_SAID_MS, (id) =>
    log.warn(
      { sealingKeyId: id, sealingKeyIds: opened.sealing.keyIds },
      "a caller's reasoning names a sealing key that is not here, and was left out; do all gateways share sealingKeyFile?",
    ),
  );
  const opened: OpenSealing =
    file === undefined
      ? { sealing: new Sealing(undefined, onUnknownKey), close() {} }
      : await followSealing(file, log, onUnknownKey);
  registerSealingStats(stats.registry, opened.sealing);
  if (file === undefined)
    log.warn("no sealingKeyFile: other gateways, and this one after a restart, cannot read what it seals");
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

/** Returns what calls `say` once in `everyMs` milliseconds at most, however often it is called. */
function atMostEvery(everyMs: number, say: (text: string) => void): (text: string) => void {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  return (text) => {
    const nowMs = systemClock.nowMs();
    if (nowMs - saidAtMs < everyMs) return;
    saidAtMs = nowMs;
    say(text);
  };
}

/** Takes orders to stop from signals alone: Node would end a worker whose supervisor has gone, amid its answers. */
function obeySignals(): StopOrders {
  const orders = new StopOrders(systemClock.nowMs);
  orders.obeySignals();
  const { worker } = cluster;
  worker?.once("disconnect", () => {
    worker.exitedAfterDisconnect = true;
  });
  return orders;
}

/** Lets `app` listen. Resolves to its URL. */
async function listening(
  app: GatewayServer["app"],
  where: GatewayConfig["listen"] & { readonly exclusive?: boolean },
): Promise<string> {
  await app.listen(where);
  const { address, family, port } = app.server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

process.exitCode = await runConfigured({
  name: "gateway",
  description: "The public API in front of engine nodes.",
  schema: gatewayConfigSchema,
  run,
});
// Timers of libraries do not keep a finished process.
process.exit();
