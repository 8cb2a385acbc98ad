import type { GatewayCounts } from "../../../fleet/fleet-history.ts";
import type { LiveTotals } from "../../../stats/live-totals.ts";
import type { ClusterManager } from "../../../upstream/cluster-manager.ts";
import type { ClusterTraffic } from "../../../upstream/cluster-traffic.ts";

export type CountingParts = {
  readonly clusters: ClusterManager;
  readonly traffic: readonly {
    readonly cluster: { readonly model: string };
    readonly admission: Pick<ClusterTraffic["admission"], "pending">;
  }[];
  readonly live: LiveTotals;
};

/** Returns the reader of the counts of this gateway process. */
export function ownCounts({ clusters, traffic, live }: CountingParts): () => GatewayCounts {
  return () => {
    const addresses = new Set(clusters.endpoints.map(({ address }) => address));
    live.keepEndpoints(addresses);
    const { user, system } = process.cpuUsage();
    return {
      cpuMs: (user + system) / 1_000,
      models: clusters.clusters.map(({ model }) => {
        const { cacheReasons: _, firstTokenCounts, ...totals } = live.model(model);
        const queued = traffic.find(({ cluster }) => cluster.model === model)?.admission.pending ?? 0;
        return { model, queued, ...totals, firstTokenCounts: [...firstTokenCounts] };
      }),
      withoutModel: { ...live.withoutModel },
      nodeDeltas: new Map([...addresses].map((address) => [address, live.endpoint(address).deltas])),
    };
  };
}
