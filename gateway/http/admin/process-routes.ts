import { getHeapStatistics } from "node:v8";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import { type AdminRoute, jsonReply } from "./admin-route.ts";
import type { ServerFacts } from "./server-routes.ts";

/** Makes the paths that show the memory of the process, and what was changed about it since it was started. */
export function processRoutes(
  { config, lifecycle, clusters, log }: ServerFacts,
  overload: OverloadManager,
): readonly AdminRoute[] {
  return [
    {
      path: "/memory",
      does: "reads",
      help: "what the process holds, in bytes",
      handle() {
        const { rss, external, arrayBuffers } = process.memoryUsage();
        const heap = getHeapStatistics();
        // Envoy's first three; counts as text, as it writes 64-bit numbers.
        return jsonReply({
          allocated: String(heap.used_heap_size),
          heap_size: String(heap.total_heap_size),
          total_physical_bytes: String(rss),
          heap_size_limit: String(heap.heap_size_limit),
          external: String(external),
          array_buffers: String(arrayBuffers),
          inflight_body_bytes: String(overload.bodies.bytes),
        });
      },
    },
    {
      path: "/runtime",
      does: "reads",
      help: "what can be changed here, as it was configured and as it is",
      handle() {
        return jsonReply({
          layers: ["configuration", "admin"],
          entries: {
            "log.level": entry(config.log.level, log.level),
            "healthcheck.failed": entry("false", String(lifecycle.healthFailed)),
            "listeners.draining": entry("false", String(lifecycle.drain.aborted)),
            "endpoints.drained": entry("", [...clusters.drained].join(",")),
          },
        });
      },
    },
  ];
}

/** Returns a setting in Envoy's form: by layer, empty where a layer says nothing. */
function entry(configured: string, now: string) {
  return { layer_values: [configured, now === configured ? "" : now], final_value: now };
}
