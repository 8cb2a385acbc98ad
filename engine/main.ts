import { Command, CommanderError } from "commander";
import type { Logger } from "pino";
import { ConfigError, loadConfig } from "../deploy/runtime/config/load-config.ts";
import { PemError } from "../deploy/runtime/files/followed-pems.ts";
import { packageVersion, programVersion } from "../deploy/runtime/files/project-folder.ts";
import { logWarnings } from "../deploy/runtime/log/log-warnings.ts";
import { processLog } from "../deploy/runtime/log/process-log.ts";
import { endOnCrash } from "../deploy/runtime/process/end-on-crash.ts";
import { outliveReaders } from "../deploy/runtime/process/outlive-readers.ts";
import { startFailure } from "../deploy/runtime/process/start-failure.ts";
import { untilAborted } from "../deploy/runtime/time/abort.ts";
import { systemClock } from "../deploy/runtime/time/clock.ts";
import type { Backend } from "./backend.ts";
import { backendKind } from "./backend-kinds.ts";
import { type EngineConfig, engineConfigSchema } from "./config.ts";
import { EngineError } from "./errors.ts";
import { followTls } from "./grpc/server-tls.ts";
import { EngineMetrics } from "./metrics/engine-metrics.ts";
import { serveMetrics } from "./metrics/metrics-server.ts";
import { EngineServer } from "./server.ts";
import type { Tracing } from "./tracing/tracing.ts";

/** Ctrl-C reaches a child both from the terminal and from npm: only a signal after this long is a second one. */
const SECOND_SIGNAL_AFTER_MS = 500;

/** Resolves to the exit code. */
async function run(config: EngineConfig): Promise<number> {
  const log = processLog({ level: config.log.level, base: { node_id: config.nodeId } });
  logWarnings(log);
  const tls = config.tls && followTls(config.tls, systemClock, log);
  const { nodeId, models, maxStepAgeMs, reflection } = config;
  const backend = await backendKind(config.backend).create(config.backend, { nodeId, models });
  const metrics = new EngineMetrics();
  const stop = new AbortController();
  const hurry = new AbortController();
  onStopSignal(stop, hurry);
  const crashed = endOnCrash(() => stop.abort(), log);

  const metricsServer = await serveMetrics(metrics.registry, config.metrics.host, config.metrics.port);
  const tracing = await loadTracing(config, log);
  const server = new EngineServer({
    nodeId,
    nodeVersion: packageVersion(),
    models,
    backend,
    metrics,
    log,
    tls,
    allowedClientNames: config.tls?.allowedClientNames,
    maxStepAgeMs,
    reflection,
    tracing,
  });
  // Health answers NOT_SERVING while the model loads: a gateway sees a node that comes up, not one that is missing.
  const port = await server.listen(config.listen.host, config.listen.port);
  log.info(startingFacts(config), "starting");
  if (!(await started(backend, stop.signal))) return crashed() ? 1 : 0;
  server.serve();
  const ready = { address: hostPort(config.listen.host, port), metricsPort: metricsServer.port, models: config.models };
  log.info(ready, "serving");
  process.stdout.write(`ready ${JSON.stringify(ready)}\n`);

  await untilAborted(stop.signal);
  await server.close(config.drainTimeoutMs, hurry.signal);
  await backend.close();
  await metricsServer.close();
  await tracing?.close();
  tls?.close();
  log.info("stopped");
  return crashed() ? 1 : 0;
}

/** Only a node that exports traces loads the SDK. */
async function loadTracing({ tracing, nodeId }: EngineConfig, log: Logger): Promise<Tracing | undefined> {
  if (!tracing) return undefined;
  const { startTracing } = await import("./tracing/start-tracing.ts");
  return startTracing(tracing, nodeId, log, systemClock.nowMs);
}

/** Whether the backend has started, and not been stopped on its way. */
async function started(backend: Backend, stop: AbortSignal): Promise<boolean> {
  try {
    await backend.start(stop);
    return true;
  } catch (error) {
    if (stop.aborted) return false;
    throw error;
  }
}

/** What a node waits for before it serves: large weights, or an engine beside it, may take long. */
function startingFacts({ backend }: EngineConfig): { readonly backend: string; readonly engine?: string | undefined } {
  return { backend: backend.kind, engine: backendKind(backend).engineOf?.(backend) };
}

/** First signal: `stop`. A second one, or a supervisor that has gone: `hurry` too. */
function onStopSignal(stop: AbortController, hurry: AbortController): void {
  let firstAt: number | undefined;
  const onSignal = () => {
    if (firstAt !== undefined && performance.now() - firstAt > SECOND_SIGNAL_AFTER_MS) hurry.abort();
    firstAt ??= performance.now();
    stop.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  process.on("disconnect", () => {
    hurry.abort();
    stop.abort();
  });
}

function hostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Exit codes: 0 fine, 2 usage or bad configuration, 1 anything else. */
async function main(): Promise<number> {
  outliveReaders();
  const command = new Command("engine")
    .description("One engine node: gRPC in front of one model.")
    .version(programVersion("engine"), "--version", "print name and version")
    .requiredOption("--config <file>", "YAML configuration")
    .exitOverride();
  try {
    command.parse();
    return await run(loadConfig(engineConfigSchema, command.opts<{ config: string }>().config));
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const isConfig = error instanceof ConfigError || error instanceof PemError;
    process.stderr.write(`engine: ${startFailure(error, isConfig || error instanceof EngineError)}\n`);
    return isConfig ? 2 : 1;
  }
}

process.exitCode = await main();
// Native threads and timers of libraries do not keep a finished process.
process.exit();
