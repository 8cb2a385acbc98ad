import { Gauge, type Registry } from "prom-client";
import { OVERLOAD_ACTIONS, RESOURCE_MONITORS } from "./overload-action.ts";
import type { OverloadManager } from "./overload-manager.ts";

/** Registers pressures, actions and bodies in flight as gauges after Envoy's `overload.*`, read at each scrape. */
export function registerOverloadStats(registry: Registry, overload: OverloadManager): void {
  const registers = [registry];
  new Gauge({
    name: "svc_overload_pressure_ratio",
    help: "Used share of a resource of this process, 0 to 1, by resource.",
    labelNames: ["resource"],
    registers,
    collect() {
      for (const resource of RESOURCE_MONITORS) this.set({ resource: snake(resource) }, overload.pressures[resource]);
    },
  });
  new Gauge({
    name: "svc_overload_action_active",
    help: "1 while an overload action is in force, by action; else 0.",
    labelNames: ["action"],
    registers,
    collect() {
      for (const action of OVERLOAD_ACTIONS) this.set({ action: snake(action) }, Number(overload.isActive(action)));
    },
  });
  new Gauge({
    name: "svc_inflight_body_bytes",
    help: "Bytes of request bodies in flight, from their announcement until an engine has accepted them.",
    registers,
    collect() {
      this.set(overload.bodies.bytes);
    },
  });
  new Gauge({
    name: "svc_inflight_bodies_waiting",
    help: "Requests whose body waits, unread, for room among the bodies in flight.",
    registers,
    collect() {
      this.set(overload.bodies.waiting);
    },
  });
}

/** Writes a name in snake case, as in Envoy's stats. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
