import type { Logger } from "pino";
import { packageVersion } from "../deploy/runtime/files/project-folder.ts";
import { followTls } from "../deploy/runtime/grpc/server-tls.ts";
import { logWarnings, processLog } from "../deploy/runtime/log/process-log.ts";
import { certificateEnds } from "../deploy/runtime/metrics/certificate-ends.ts";
import { isLoopback } from "../deploy/runtime/net/loopback.ts";
import { endOnCrash } from "../deploy/runtime/process/end-on-crash.ts";
import { StopOrders } from "../deploy/runtime/process/stop-orders.ts";
import { untilAborted } from "../deploy/runtime/time/abort.ts";
import { systemClock } from "../deploy/runtime/time/clock.ts";
import type { Backend, ServedNode } from "./backend.ts";
import { CallerWork } from "./caller-work/caller-work.ts";
import { workRecorder } from "./calls/call-log.ts";
import type { EngineConfig } from "./config.ts";
import { CONNECTION_LIMITS } from "./grpc/interceptors.ts";
import { EngineMetrics } from "./metrics/engine-metrics.ts";
import { serveMetrics } from "./metrics/metrics-server.ts";
import { EngineServer, hostPort } from "./server.ts";
import type { GenerationTracing } from "./tracing/generation-tracing.ts";

export type NodeConfig = Omit<EngineConfig, "backend"> & { readonly backend: { readonly kind: string } };

export type CreateBackend<Config extends NodeConfig> = (
  backend: Config["backend"],
  node: ServedNode,
  work: CallerWork,
) => Backend | Promise<Backend>;

/** Runs a node until a stop signal. Resolves to the exit code. */
export async function serveNode<Config extends NodeConfig>(
  config: Config,
  createBackend: CreateBackend<Config>,
): Promise<number> {
  const log = processLog({ ...config.log, base: { node_id: config.nodeId } });
  logWarnings(log);
  const tls = config.tls && followTls(config.tls, systemClock, log);
  const { nodeId, models, maxStepAgeMs, handoverGraceMs, reflection } = config;
  const metrics = new EngineMetrics();
  metrics.read({ svc_tls_certificate_expiry_timestamp_seconds: () => certificateEnds(tls ? [tls.now] : []) });
  const work = new CallerWork({ clock: systemClock, onEnd: workRecorder(metrics, log) });
  const backend = await createBackend(config.backend, { nodeId, models }, work);
  const orders = new StopOrders(systemClock.nowMs);
  orders.obeySignals();
  const crashed = endOnCrash(() => orders.order(), log);

  const tracing = await loadTracing(config, log);
  const server = new EngineServer({
    nodeId,
    nodeVersion: packageVersion(),
    models,
    backend,
    work,
    metrics,
    log,
    tls,
    allowedClientNames: config.tls?.allowedClientNames,
    connection: CONNECTION_LIMITS,
    maxStepAgeMs,
    handoverGraceMs,
    reflection,
    tracing,
  });
  const metricsServer = await serveMetrics(metrics.registry, server, config.metrics);
  // The port opens while the model loads: health reports NOT_SERVING, and a gateway sees a starting node, not a missing
  // one.
  const port = await server.listen(config.listen.host, config.listen.port);
  log.info(startingFacts(config), "starting");
  warnOfOpenPort(config, log);
  backend.onLoad = loadingLines();
  if (!(await started(backend, orders.stop))) return crashed() ? 1 : 0;
  for (const note of backend.startNotes?.() ?? []) log.warn(note);
  backend.onNote = (note) => log.warn(note);
  server.serve();
  const ready = { address: hostPort(config.listen.host, port), metricsPort: metricsServer.port, models: config.models };
  const { engineVersion: engine, samplingDefaults } = backend.describe();
  log.info({ ...ready, engine, samplingDefaults }, "serving");
  process.stdout.write(`ready ${JSON.stringify(ready)}\n`);

  await untilAborted(orders.stop);
  await server.close(config.drainTimeoutMs, orders.stopNow);
  await backend.close();
  await work.close();
  await metricsServer.close();
  await tracing?.close();
  tls?.close();
  log.info("stopped");
  return crashed() ? 1 : 0;
}

/** Warns if the gRPC port accepts remote callers without checking them: any of them may generate. */
function warnOfOpenPort({ listen: { host }, tls }: NodeConfig, log: Logger): void {
  if (isLoopback(host) || tls?.clientCaFile !== undefined) return;
  const how = tls ? "tls has no clientCaFile" : "plain text, without tls";
  log.warn({ host }, `the gRPC port accepts callers of other machines without authentication: ${how}`);
}

/** Starts tracing if the node exports traces: the SDK is loaded only then. */
async function loadTracing({ tracing, nodeId }: NodeConfig, log: Logger): Promise<GenerationTracing | undefined> {
  if (!tracing) return undefined;
  const { startTracing } = await import("./tracing/generation-tracing.ts");
  return startTracing(tracing, nodeId, log, systemClock.nowMs);
}

/** Returns a function that prints a line for each tenth of the weights that is loaded. */
function loadingLines(): (part: number) => void {
  let tenths = 0;
  return (part) => {
    const loaded = Math.floor(part * 10);
    if (loaded <= tenths) return;
    tenths = loaded;
    process.stdout.write(`loading ${loaded * 10} %\n`);
  };
}

/** Starts the backend. Resolves to false if the node was stopped meanwhile. */
async function started(backend: Backend, stop: AbortSignal): Promise<boolean> {
  try {
    await backend.start(stop);
    return true;
  } catch (error) {
    if (stop.aborted) return false;
    throw error;
  }
}

/** Returns log fields that name what startup waits for: loading large weights or an engine may take long. */
function startingFacts({ backend }: NodeConfig): { readonly backend: string; readonly engine?: string } {
  const beside = "baseUrl" in backend ? { engine: new URL(String(backend.baseUrl)).host } : {};
  return { backend: backend.kind, ...beside };
}
