import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { StopOrders } from "../../../deploy/runtime/process/stop-orders.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { type AdminDeps, buildAdmin } from "../../../gateway/http/admin/admin-server.ts";
import { FleetView } from "../../../gateway/http/admin/fleet-view.ts";
import { registerClusterGauges, registerKeyGauges, registerSealingGauges } from "../../../gateway/http/admin/gauges.ts";
import { Lifecycle } from "../../../gateway/lifecycle.ts";
import { EndpointOrders } from "../../../gateway/upstream/endpoint-orders.ts";
import { metricSum } from "../metric-text.ts";
import type { RunningGateway } from "./start-gateway.ts";

export type RunningAdmin = Awaited<ReturnType<typeof startAdmin>>;

/** Starts a gateway's admin listener. `config` is the shown configuration, `access` its security. */
export async function startAdmin(
  gateway: RunningGateway,
  config: Readonly<Record<string, unknown>> = {},
  access: Partial<Pick<AdminDeps, "proof" | "tls" | "owner">> = {},
) {
  const lifecycle = new Lifecycle(new StopOrders(systemClock.nowMs));
  lifecycle.listening();
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line) => lines.push(line) });
  const { clusters, stats, keys, sealing, keyFile, limiter, usage, overload, traffic, webSockets } = gateway;
  registerClusterGauges(stats, clusters);
  registerKeyGauges(stats, () => keys.status());
  registerSealingGauges(stats, sealing);
  const connections = () => 0;
  const owner = access.owner ?? { owns: () => false, kill: () => {} };
  const fleet = new FleetView({
    ...{ clusters, traffic, stats, lifecycle, overload, connections, owner },
    version: "1.2.3",
    warnings: () => lines.filter((line) => line.startsWith('{"level":4')).slice(-20),
    clock: systemClock,
  });
  const app = buildAdmin({
    config: checkConfig(gatewayConfigSchema, { keys: { file: keyFile }, clusters: [], ...config }, "test"),
    version: "1.2.3",
    listeners: () => [{ name: "public", address: gateway.baseUrl }],
    lifecycle,
    webSockets,
    clusters,
    orders: await EndpointOrders.open(clusters, undefined, systemClock),
    stats,
    keys,
    sealing,
    limiter,
    usage,
    overload,
    fleet,
    log,
    clock: systemClock,
    ...access,
    owner,
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
    json: async (path: string): Promise<Record<string, unknown>> => JSON.parse(await text(path)),
    /** Resolves to one value of `/stats`; 0 if it does not exist yet. */
    stat: async (name: string, labels: string) =>
      metricSum(await text(`/stats?filter=${name.replace(/_count$/, "")}`), name, labels),
    post: (path: string, headers: Record<string, string> = {}) => fetch(`${url}${path}`, { method: "POST", headers }),
    async stop() {
      fleet.close();
      await app.close();
    },
  };
}
