import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { StopOrders } from "../../../deploy/runtime/process/stop-orders.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { FleetHistory } from "../../../gateway/fleet/fleet-history.ts";
import { type AdminDeps, buildAdmin } from "../../../gateway/http/admin/admin-server.ts";
import { registerClusterStats } from "../../../gateway/http/admin/fleet/cluster-stats.ts";
import { ownCounts } from "../../../gateway/http/admin/fleet/own-counts.ts";
import { registerKeyStats } from "../../../gateway/keys/key-stats.ts";
import { Lifecycle } from "../../../gateway/lifecycle.ts";
import { EndpointOrders } from "../../../gateway/upstream/endpoint-orders.ts";
import { metricSum } from "../metric-text.ts";
import type { RunningGateway } from "./start-gateway.ts";

/** A running admin listener, and what it looks at. */
export type RunningAdmin = {
  readonly url: string;
  /** The lifecycle that its paths read and change. */
  readonly lifecycle: Lifecycle;
  /** The log whose level its paths change. */
  readonly log: { readonly level: string };
  /** The lines that were logged. */
  readonly lines: readonly string[];
  /** Asks a path with GET. */
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  /** Resolves to what a path answers GET with, as text. */
  text(path: string): Promise<string>;
  /** Resolves to what a path answers GET with, as a JSON object. */
  json(path: string): Promise<Record<string, unknown>>;
  /** Resolves to one value of `/stats`; to 0 where there is none yet. */
  stat(name: string, labels: string): Promise<number>;
  /** Asks a path with POST, without a body. */
  post(path: string, headers?: Record<string, string>): Promise<Response>;
  /** Stops the listener. */
  stop(): Promise<void>;
};

/**
 * Starts the admin listener of a gateway, on a free port. `config` is what it shows as its configuration, `access` how
 * it is secured.
 */
export async function startAdmin(
  gateway: RunningGateway,
  config: Readonly<Record<string, unknown>> = {},
  access: Pick<AdminDeps, "proof" | "tls"> = {},
): Promise<RunningAdmin> {
  const lifecycle = new Lifecycle(new StopOrders(systemClock.nowMs));
  lifecycle.listening();
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line) => lines.push(line) });
  const { clusters, stats, keys, sealing, keyFile, limiter, usage, overload, traffic } = gateway;
  registerClusterStats(stats.registry, clusters);
  registerKeyStats(stats.registry, keys);
  const history = new FleetHistory(ownCounts({ clusters, traffic, live: stats.live }), systemClock);
  const app = buildAdmin({
    config: checkConfig(gatewayConfigSchema, { keys: { file: keyFile }, clusters: [], ...config }, "test"),
    version: "1.2.3",
    listeners: () => [{ name: "public", address: gateway.baseUrl }],
    lifecycle,
    clusters,
    orders: await EndpointOrders.open(clusters, undefined, systemClock),
    stats,
    keys,
    sealing,
    limiter,
    usage,
    overload,
    connections: () => 0,
    history,
    log,
    clock: systemClock,
    ...access,
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const get = (path: string, headers: Record<string, string> = {}) => fetch(`${url}${path}`, { headers });
  const text = async (path: string) => (await get(path)).text();
  const url = `${access.tls ? "https" : "http"}://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  return {
    url,
    lifecycle,
    log,
    lines,
    get,
    text,
    json: async (path) => JSON.parse(await text(path)),
    stat: async (name, labels) => metricSum(await text(`/stats?filter=${name.replace(/_count$/, "")}`), name, labels),
    post: (path, headers = {}) => fetch(`${url}${path}`, { method: "POST", headers }),
    async stop() {
      history.close();
      await app.close();
    },
  };
}
