import { serveMetrics } from "../../engine/metrics/metrics-server.ts";
import { ConfigError } from "../runtime/config/load-config.ts";
import { logWarnings, processLog } from "../runtime/log/process-log.ts";
import { certificateEnds } from "../runtime/metrics/certificate-ends.ts";
import { Metrics } from "../runtime/metrics/metric-table.ts";
import { processRegistry } from "../runtime/metrics/process-metrics.ts";
import { endOnCrash } from "../runtime/process/end-on-crash.ts";
import { runConfigured } from "../runtime/process/run-main.ts";
import { StopOrders } from "../runtime/process/stop-orders.ts";
import { systemClock } from "../runtime/time/clock.ts";
import { type ProberConfig, proberConfigSchema } from "./config.ts";
import { Edge, readKey, Unproven } from "./edge.ts";
import { METRICS, Prober } from "./prober.ts";
import { promisesOf } from "./promises.ts";

/** Runs the prober until a stop signal. Resolves to the exit code. */
async function run(config: ProberConfig): Promise<number> {
  checkKeys(config);
  const log = processLog({ ...config.log, base: null });
  logWarnings(log);
  const orders = new StopOrders(systemClock.nowMs);
  orders.obeySignals();
  const crashed = endOnCrash(() => orders.order(), log);
  const registry = processRegistry();
  const edge = new Edge(config.edge);
  const metrics = new Metrics(METRICS, registry);
  metrics.read({
    svc_tls_certificate_expiry_timestamp_seconds: () =>
      certificateEnds([], edge.certificateEndsMs === undefined ? [] : [edge.certificateEndsMs]),
  });
  const promises = promisesOf(config, { edge, clock: systemClock });
  const prober = new Prober({ promises, clock: systemClock, log, metrics });
  const server = await serveMetrics(registry, { phase: "serving", engineHung: false }, config.metrics);
  const ready = { promises: promises.map(({ name }) => name), metricsPort: server.port };
  log.info(ready, "proving");
  process.stdout.write(`ready ${JSON.stringify(ready)}\n`);
  await prober.run(orders.stop);
  await server.close();
  log.info("stopped");
  return Number(crashed());
}

/** Reads every key once, so that a wrong path or mode stops the start. Throws `ConfigError`. */
function checkKeys({ keyFile, limit, revocation }: ProberConfig): void {
  const files = { keyFile, "limit.keyFile": limit?.keyFile, "revocation.keyFile": revocation?.keyFile };
  for (const [at, file] of Object.entries(files))
    try {
      if (file !== undefined) readKey(file);
    } catch (cause) {
      if (!(cause instanceof Unproven)) throw cause;
      throw new ConfigError(`${at}: ${file} holds no key, or is open to other users; its mode should be 0600`, {
        cause,
      });
    }
}

process.exitCode = await runConfigured({
  name: "prober",
  description: "Proves the promises of the service from a caller's side, all the time.",
  schema: async () => proberConfigSchema,
  gone: {},
  run,
});
// Timers of libraries must not keep a finished process alive.
process.exit();
