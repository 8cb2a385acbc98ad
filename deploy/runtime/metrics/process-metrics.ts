import { collectDefaultMetrics, Registry } from "prom-client";

/**
 * The gauges of the library whose names end as those of counters do, which tools that check names complain about. The
 * gauges of the same names without the ending have the same numbers by type.
 */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Makes a registry that has the metrics of any Node process already: `process_…` and `nodejs_…`. */
export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return registry;
}
