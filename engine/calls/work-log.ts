import type { Logger } from "pino";
import type { WorkEnd } from "../caller-work/caller-work.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";

/**
 * Returns a function that counts each finished worker job. A fault of this program is also logged, once per code
 * location: a caller could otherwise fill the log with it.
 */
export function workRecorder(metrics: EngineMetrics, log: Logger): (end: WorkEnd) => void {
  const logged = new Set<string>();
  return ({ kind, outcome, fault }) => {
    metrics.callerWork.inc({ kind, outcome });
    if (!fault) return;
    const place = `${fault.error} ${fault.at[0]}`;
    if (logged.has(place)) return;
    logged.add(place);
    log.error({ kind, ...fault }, "caller work failed");
  };
}
