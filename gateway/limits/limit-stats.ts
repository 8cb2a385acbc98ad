import { Gauge, type Registry } from "prom-client";

/**
 * Registers the gauge of a gateway whose limits are counted elsewhere, for it and others together. `shared` returns
 * whether whoever counts answers.
 */
export function registerLimitStats(registry: Registry, shared: () => boolean): void {
  new Gauge({
    name: "svc_ratelimit_store_up",
    help: "1 while whoever counts the limits of keys for several gateways answers; else 0.",
    registers: [registry],
    collect() {
      this.set(shared() ? 1 : 0);
    },
  });
}
