import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "../../config.ts";
import type { Lifecycle } from "../../lifecycle.ts";
import type { Sealing } from "../../sealing/sealing.ts";
import type { ClusterManager } from "../../upstream/cluster-manager.ts";
import { type AdminRoute, badRequest, jsonReply, OK, wantsJson } from "./admin-route.ts";
import { maskFields, parseFieldMask } from "./field-mask.ts";
import { maskSecrets } from "./mask-secrets.ts";

/** An address, `host:port`, that the gateway listens on, and the name of the listener. */
export type Listener = { readonly name: string; readonly address: string };

/** The facts that the gateway knows of itself. */
export type ServerFacts = {
  /** The configuration, with its defaults. */
  readonly config: GatewayConfig;
  /** The version of the package. */
  readonly version: string;
  /** Returns the addresses that the gateway listens on now. */
  readonly listeners: () => readonly Listener[];
  /** Seals reasoning, by keys whose ids other gateways should show, too. */
  readonly sealing: Pick<Sealing, "keyIds">;
  /** The lifecycle of the gateway, which names its state and takes orders to change it. */
  readonly lifecycle: Lifecycle;
  /** The clusters, by which the gateway is initialized once some model can be served. */
  readonly clusters: ClusterManager;
  /** The log whose level may be changed. */
  readonly log: Logger;
  /** The clock by which the time since the start is measured. */
  readonly clock: Clock;
};

/** The levels that the log can be set to. None is below `debug`: what libraries write there may quote a request. */
const LEVELS = ["debug", "info", "warn", "error"];

/** Makes the paths that say what this process is, how it was set up, and how much it logs. */
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
    reads(
      "/config_dump",
      "configuration in force, without secrets, and what discovery found; ?mask=bootstrap.limits",
      ({ query }) => {
        const mask = query.get("mask");
        const paths = mask === null ? [[]] : parseFieldMask(mask);
        if (!paths) return badRequest("mask: expected names of fields with dots and commas between them");
        const dump = {
          bootstrap: maskSecrets(config),
          dynamic_endpoints: clusters.clusters.map(({ model, members, discovery }) => ({
            cluster: model,
            endpoints: members.map(({ spec }) => spec),
            discovery,
          })),
        };
        return jsonReply(maskFields(dump, paths));
      },
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
