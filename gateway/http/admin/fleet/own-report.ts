import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { GatewayReport } from "../../../fleet/gateway-report.ts";
import type { Lifecycle } from "../../../lifecycle.ts";
import type { LiveTotals } from "../../../stats/live-totals.ts";
import type { ClusterManager } from "../../../upstream/cluster-manager.ts";
import type { ClusterTraffic } from "../../../upstream/cluster-traffic.ts";
import type { Workers } from "../../../workers.ts";
import { clusterStatuses } from "./cluster-status.ts";

/** What a gateway takes its report from. */
export type ReportFacts = {
  /** The clusters, whose endpoints the gateway tells of. */
  readonly clusters: ClusterManager;
  /** The traffic of the clusters, with their queues. */
  readonly traffic: readonly { readonly cluster: { readonly model: string }; readonly admission: Queue }[];
  /** The totals of requests and deltas. */
  readonly live: LiveTotals;
  /** The lifecycle of the gateway, which names its state. */
  readonly lifecycle: Pick<Lifecycle, "state">;
  /** Returns the number of connections of the public listener. */
  readonly connections: () => number;
  /** The workers that share the public port. */
  readonly workers: Pick<Workers, "index">;
  /** The clock by which the time since the start is measured. */
  readonly clock: Clock;
};

type Queue = Pick<ClusterTraffic["admission"], "pending"> & {
  readonly peers: Pick<ClusterTraffic["admission"]["peers"], "tell">;
};

/** Makes what returns the report of this gateway process, under an id that it has until it ends. */
export function ownReport(facts: ReportFacts): () => GatewayReport {
  const { clusters, traffic, live, lifecycle, connections, workers, clock } = facts;
  const id = randomBytes(8).toString("base64url");
  const host = hostname();
  const startedMs = clock.nowMs();
  return () => {
    const nowMs = clock.nowMs();
    live.keepEndpoints(new Set(clusters.endpoints.map(({ address }) => address)));
    const { user, system } = process.cpuUsage();
    return {
      id,
      host,
      worker: workers.index,
      state: lifecycle.state(clusters.ready),
      uptimeMs: Math.round(nowMs - startedMs),
      connections: connections(),
      rssBytes: process.memoryUsage.rss(),
      cpuMs: Math.round((user + system) / 1_000),
      loopActiveMs: Math.round(performance.eventLoopUtilization().active),
      models: clusters.clusters.map(({ model }) => {
        const { firstTokens: _, firstTokenCounts, cacheReasons, ...totals } = live.model(model);
        const admission = traffic.find(({ cluster }) => cluster.model === model)?.admission;
        const queued = admission?.pending ?? 0;
        const turns = admission?.peers.tell(nowMs);
        const reasons = [...cacheReasons].map(([reason, counts]) => ({ reason, ...counts }));
        return { model, queued, ...totals, cacheReasons: reasons, turns, firstTokens: [...firstTokenCounts] };
      }),
      withoutModel: { ...live.withoutModel },
      nodes: nodesOf(facts, nowMs),
    };
  };
}

/** Returns what the gateway knows of each node by its own calls, whatever models the node has. */
function nodesOf({ clusters, live }: ReportFacts, nowMs: number): GatewayReport["nodes"] {
  const nodes = new Map<string, GatewayReport["nodes"][number]>();
  for (const { endpoints } of clusterStatuses(clusters, nowMs))
    for (const { address, healthFlags, rqActive, rqTotal, rqError } of endpoints) {
      const { flags, active, total, errors } = nodes.get(address) ?? { flags: [], active: 0, total: 0, errors: 0 };
      const { deltas } = live.endpoint(address);
      nodes.set(address, {
        ...{ address, deltas, flags: [...new Set([...flags, ...healthFlags])] },
        ...{ active: active + rqActive, total: total + rqTotal, errors: errors + rqError },
      });
    }
  return [...nodes.values()];
}
