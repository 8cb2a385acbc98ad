import { getHeapStatistics } from "node:v8";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "../../config.ts";
import type { Lifecycle } from "../../lifecycle.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import type { Sealing } from "../../sealing/sealing.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import { clientAddress } from "../record/client-address.ts";
import type { SocketUpgrades } from "../websocket/socket-upgrades.ts";
import {
  type AdminReply,
  type AdminRoute,
  badRequest,
  changes,
  jsonReply,
  OK,
  reads,
  wantsJson,
} from "./admin-route.ts";

/** An address (`host:port`) of a listener, and the listener's name. */
export type Listener = { readonly name: string; readonly address: string };

export type HealthFacts = {
  readonly lifecycle: Lifecycle;
  /** The gateway is initialized once some model can be served. */
  readonly clusters: ClusterManager;
  readonly webSockets: Pick<SocketUpgrades, "drainFrom">;
  /** Returns warnings while the gateway serves, a line each, such as of an unreachable store. Default: none. */
  readonly notes?: () => readonly string[];
};

/** The gateway's facts about itself. */
export type ServerFacts = HealthFacts & {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly listeners: () => readonly Listener[];
  /** The ids of its keys should be equal on all gateways. */
  readonly sealing: Pick<Sealing, "keyIds">;
  readonly overload: OverloadManager;
  /** Its level may be changed. */
  readonly log: Logger;
  readonly clock: Clock;
};

/** The levels that the log can be set to. None is below `debug`: the trace lines of libraries may quote a request. */
const LEVELS = ["debug", "info", "warn", "error"];

/** Makes the paths of liveness and readiness, which need no proof, and the one by which a proxy in front drains. */
export function healthRoutes({
  lifecycle,
  clusters,
  webSockets,
  notes = () => [],
}: HealthFacts): readonly AdminRoute[] {
  const ready = (): AdminReply => {
    const state = lifecycle.state(clusters.ready);
    return { status: state === "LIVE" ? 200 : 503, body: [state, ...notes(), ""].join("\n") };
  };
  return [
    reads("/healthz", "whether the process lives", () => ({ body: "ok\n" })),
    reads("/ready", "200 LIVE, or 503 DRAINING or PRE_INITIALIZING; then what is amiss, a line each", ready),
    reads("/readyz", "the same", ready),
    // Without proof: it reaches what its caller could close itself.
    changes("/drain_sockets", "close the WebSockets from the address that asks, each after its answer", ({ from }) => {
      webSockets.drainFrom(clientAddress(from, undefined, 0));
      return OK;
    }),
  ];
}

/** Makes the paths that drain and end the process. */
export function stateRoutes(lifecycle: Lifecycle): readonly AdminRoute[] {
  return [
    changes("/healthcheck/fail", "say DRAINING on /ready from now on", () => {
      lifecycle.failHealth(true);
      return OK;
    }),
    changes("/healthcheck/ok", "take that back", () => {
      lifecycle.failHealth(false);
      return OK;
    }),
    changes("/drain_listeners", "take no new connections; ?graceful: after a while; the process stays", ({ query }) => {
      lifecycle.drainListeners(query.has("graceful"));
      return OK;
    }),
    // Without requests to wait for, the process would exit before its answer.
    changes("/quitquitquit", "end as at SIGTERM; a second time: at once", () => ({
      ...OK,
      afterwards: () => lifecycle.quit(),
    })),
  ];
}

/** Makes the paths that show the process, its configuration, its memory and its log level. */
export function serverRoutes(facts: ServerFacts): readonly AdminRoute[] {
  const { config, version, listeners, sealing, lifecycle, clusters, overload, log, clock } = facts;
  const startedMs = clock.nowMs();
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
        dynamic_endpoints: clusters.clusters.map(({ name, members, discovery }) => ({
          cluster: name,
          endpoints: members.map(({ address, weight }) => ({ address, loadBalancingWeight: weight })),
          discovery,
        })),
      }),
    ),
    changes("/logging", `?level=${LEVELS.join("|")}; without it: say which`, ({ query }) => {
      const level = query.get("level");
      if (level === null) return { body: `${log.level}\n` };
      if (!LEVELS.includes(level)) return badRequest(`level: expected ${LEVELS.join(", ")}`);
      log.level = level;
      return OK;
    }),
    reads("/memory", "what the process holds, in bytes", () => jsonReply(memory(overload))),
    reads("/runtime", "what can be changed here, as it was configured and as it is", () =>
      jsonReply({
        layers: ["configuration", "admin"],
        entries: {
          "log.level": entry(config.log.level, log.level),
          "healthcheck.failed": entry("false", String(lifecycle.healthFailed)),
          "listeners.draining": entry("false", String(lifecycle.drain.aborted)),
          "endpoints.drained": entry("", [...clusters.drained].join(",")),
        },
      }),
    ),
  ];
}

/** Envoy's first three and others; counts as text, as it writes 64-bit numbers. */
function memory({ bodies }: OverloadManager): Readonly<Record<string, string>> {
  const { rss, external, arrayBuffers } = process.memoryUsage();
  const heap = getHeapStatistics();
  return {
    allocated: String(heap.used_heap_size),
    heap_size: String(heap.total_heap_size),
    total_physical_bytes: String(rss),
    heap_size_limit: String(heap.heap_size_limit),
    external: String(external),
    array_buffers: String(arrayBuffers),
    inflight_body_bytes: String(bodies.bytes),
  };
}

/** Returns a setting in Envoy's form: by layer, empty where a layer does not set it. */
function entry(configured: string, now: string) {
  return { layer_values: [configured, now === configured ? "" : now], final_value: now };
}

const MASK = "[redacted]";
/** The names of settings that hold a secret; not a path to a file with one. */
const SECRET_NAME = /(secret|password|passphrase|token|credential|bearer|salt|hash|digest)s?$/i;
/** The names of settings that hold a secret, unless they are an object with settings about keys or access. */
const KEY_NAME = /(key|auth)s?$/i;
/** The start of a URL with credentials: `scheme://user:password@host`. */
const USER_INFO = /^([a-z][a-z0-9+.-]*:\/\/)[^/@\s]*@/i;
/** A URL with a query or fragment, in which some services expect their credentials. */
const BEHIND_PATH = /^([a-z][a-z0-9+.-]*:\/\/[^?#\s]*[?#]).+$/is;

/** Returns a copy of a configuration for display: secrets and hashes are removed at any depth. */
export function maskSecrets(value: unknown): unknown {
  if (typeof value === "string") return value.replace(USER_INFO, `$1${MASK}@`).replace(BEHIND_PATH, `$1${MASK}`);
  if (Array.isArray(value)) return value.map(maskSecrets);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, maskMember(name, inner)]));
}

function maskMember(name: string, value: unknown): unknown {
  // For example a limit on tokens.
  if (typeof value === "number" || typeof value === "boolean" || value === null || value === undefined) return value;
  if (SECRET_NAME.test(name) || (KEY_NAME.test(name) && typeof value === "string")) return MASK;
  if (KEY_NAME.test(name) && Array.isArray(value))
    return value.map((item) => (typeof item === "string" ? MASK : maskSecrets(item)));
  return maskSecrets(value);
}
