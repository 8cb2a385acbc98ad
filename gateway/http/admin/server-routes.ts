import { getHeapStatistics } from "node:v8";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "../../config.ts";
import type { Lifecycle } from "../../lifecycle.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import type { Sealing } from "../../sealing/sealing.ts";
import type { ClusterManager } from "../../upstream/cluster-manager.ts";
import { type AdminReply, type AdminRoute, badRequest, jsonReply, OK, wantsJson } from "./admin-route.ts";
import { maskSecrets } from "./mask-secrets.ts";

/** An address (`host:port`) of a listener, and the listener's name. */
export type Listener = { readonly name: string; readonly address: string };

/** The gateway's facts about itself. */
export type ServerFacts = {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly listeners: () => readonly Listener[];
  /** The sealing of reasoning; the ids of its keys should be equal on all gateways. */
  readonly sealing: Pick<Sealing, "keyIds">;
  readonly lifecycle: Lifecycle;
  /** The clusters; the gateway is initialized once some model can be served. */
  readonly clusters: ClusterManager;
  /** The log, whose level may be changed. */
  readonly log: Logger;
  readonly clock: Clock;
};

/** The levels that the log can be set to. None is below `debug`: the trace lines of libraries may quote a request. */
const LEVELS = ["debug", "info", "warn", "error"];

/** Makes the paths that show the process, its configuration and its log level. */
export function serverRoutes(facts: ServerFacts): readonly AdminRoute[] {
  const { config, version, listeners, sealing, lifecycle, clusters, log, clock } = facts;
  const startedMs = clock.nowMs();
  const reads = (path: string, help: string, handle: AdminRoute["handle"]): AdminRoute => ({
    path,
    does: "reads",
    help,
    handle,
  });
  return [
    reads("/server_info", "version, state, uptime, ids of the sealing keys", () =>
      jsonReply({
        version,
        state: lifecycle.state(clusters.ready),
        uptime_current_epoch: `${Math.floor((clock.nowMs() - startedMs) / 1000)}s`,
        node: { version: process.version, pid: process.pid },
        sealing: { key_ids: sealing.keyIds, ends_with_process: config.sealingKeyFile === undefined },
      }),
    ),
    reads("/listeners", "addresses that are listened on; ?format=json", (request) => {
      const all = listeners();
      if (wantsJson(request))
        return jsonReply({ listener_statuses: all.map(({ name, address }) => ({ name, local_address: address })) });
      return { body: all.map(({ name, address }) => `${name}::${address}\n`).join("") };
    }),
    reads("/config_dump", "configuration in force, without secrets, and what discovery found", () =>
      jsonReply({
        bootstrap: maskSecrets(config),
        dynamic_endpoints: clusters.clusters.map(({ model, members, discovery }) => ({
          cluster: model,
          endpoints: members.map(({ address, weight }) => ({ address, loadBalancingWeight: weight })),
          discovery,
        })),
      }),
    ),
    {
      path: "/logging",
      does: "changes",
      help: `?level=${LEVELS.join("|")}; without it: say which`,
      handle({ query }) {
        const level = query.get("level");
        if (level === null) return { body: `${log.level}\n` };
        if (!LEVELS.includes(level)) return badRequest(`level: expected ${LEVELS.join(", ")}`);
        log.level = level;
        return OK;
      },
    },
  ];
}

/** The sources of health. */
export type HealthFacts = {
  readonly lifecycle: Lifecycle;
  /** The clusters; the gateway is initialized once some model can be served. */
  readonly clusters: ClusterManager;
  /**
   * Returns warnings for operators while the gateway serves, a line each, such as that a shared store is unreachable.
   * Default: none.
   */
  readonly notes?: () => readonly string[];
};

/** Makes the paths of liveness and readiness, which need no proof. */
export function healthRoutes({ lifecycle, clusters, notes = () => [] }: HealthFacts): readonly AdminRoute[] {
  const ready = (): AdminReply => {
    const state = lifecycle.state(clusters.ready);
    return { status: state === "LIVE" ? 200 : 503, body: [state, ...notes(), ""].join("\n") };
  };
  const reads = (path: string, help: string, handle: AdminRoute["handle"]): AdminRoute => ({
    path,
    does: "reads",
    open: true,
    help,
    handle,
  });
  return [
    reads("/healthz", "whether the process lives", () => ({ body: "ok\n" })),
    reads("/ready", "200 LIVE, or 503 DRAINING or PRE_INITIALIZING; then what is amiss, a line each", ready),
    reads("/readyz", "the same", ready),
  ];
}

export function stateRoutes(lifecycle: Lifecycle): readonly AdminRoute[] {
  const changes = (path: string, help: string, change: (query: URLSearchParams) => void): AdminRoute => ({
    path,
    does: "changes",
    help,
    handle({ query }) {
      change(query);
      return OK;
    },
  });
  return [
    changes("/healthcheck/fail", "say DRAINING on /ready from now on", () => lifecycle.failHealth(true)),
    changes("/healthcheck/ok", "take that back", () => lifecycle.failHealth(false)),
    changes("/drain_listeners", "take no new connections; ?graceful: after a while; the process stays", (query) =>
      lifecycle.drainListeners(query.has("graceful")),
    ),
    {
      path: "/quitquitquit",
      does: "changes",
      help: "end as at SIGTERM; a second time: at once",
      // Without requests to wait for, the process would exit before its answer.
      handle: () => ({ ...OK, afterwards: () => lifecycle.quit() }),
    },
  ];
}

/** Makes the paths that show the memory of the process, and its runtime settings. */
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

/** Returns a setting in Envoy's form: by layer, empty where a layer does not set it. */
function entry(configured: string, now: string) {
  return { layer_values: [configured, now === configured ? "" : now], final_value: now };
}
