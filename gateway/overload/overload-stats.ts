import { Gauge, type Registry } from "prom-client";
import { OVERLOAD_ACTIONS, RESOURCE_MONITORS } from "./overload-action.ts";
import type { OverloadManager } from "./overload-manager.ts";

/**
 * Registers pressures, actions and bodies on their way as gauges after Envoy's `overload.*`, read at the moment of the
 * scrape.
 */
export function registerOverloadStats(registry: Registry, overload: OverloadManager): void {
  const registers = [registry];
  new Gauge({
    name: "svc_overload_pressure_ratio",
    help: "How near a resource of this process is to its end; 1: there.",
    labelNames: ["resource"],
    registers,
    collect() {
      for (const resource of RESOURCE_MONITORS) this.set({ resource: snake(resource) }, overload.pressures[resource]);
    },
  });
  new Gauge({
    name: "svc_overload_action_active",
    help: "1 while this is done to keep the process alive.",
    labelNames: ["action"],
    registers,
    collect() {
      for (const action of OVERLOAD_ACTIONS) this.set({ action: snake(action) }, Number(overload.isActive(action)));
    },
  });
  new Gauge({
    name: "svc_inflight_body_bytes",
    help: "Bytes of request bodies that have come and are not understood yet.",
    registers,
    collect() {
      this.set(overload.bodies.bytes);
    },
  });
}

/** Writes a name as Envoy's stats do. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
