import { collectDefaultMetrics, Registry } from "prom-client";

/** Gauges with the name suffix of counters, which linters report; those without it have the numbers by type. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Makes a registry with the metrics of any Node process: `process_…` and `nodejs_…`. */
export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return registry;
}
