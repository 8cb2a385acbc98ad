import { Gauge, type Registry } from "prom-client";

/** Registers the gauge of a gateway whose limits are counted in a store. `shared` returns whether the store answers. */
export function registerLimitStats(registry: Registry, shared: () => boolean): void {
  new Gauge({
    name: "svc_ratelimit_store_up",
    help: "1 while the shared store of limits answers; else 0.",
    registers: [registry],
    collect() {
      this.set(shared() ? 1 : 0);
    },
  });
}
