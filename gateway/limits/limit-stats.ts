import { Gauge, type Registry } from "prom-client";

/**
 * Registers the gauge of a gateway worker whose limits another process counts. `shared` returns whether that process
 * answers.
 */
export function registerLimitStats(registry: Registry, shared: () => boolean): void {
  new Gauge({
    name: "svc_ratelimit_store_up",
    help: "1 while the process that counts the limits of keys for all workers answers; else 0.",
    registers: [registry],
    collect() {
      this.set(shared() ? 1 : 0);
    },
  });
}
