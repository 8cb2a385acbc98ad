import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { SeenReport } from "../../../fleet/gateway-report.ts";
import type { ClusterTraffic } from "../../../upstream/cluster-traffic.ts";

/** Who hears of the others. */
export type HearingFacts = {
  /** The traffic of the clusters: each cluster hears of its own model. */
  readonly traffic: readonly { readonly cluster: { readonly model: string }; readonly admission: Hearing }[];
  /** The clock by which what was told is dated. */
  readonly clock: Pick<Clock, "nowMs">;
};

type Hearing = { readonly peers: Pick<ClusterTraffic["admission"]["peers"], "hear"> };

/**
 * Makes what tells the clusters of a gateway, by the reports of the others, what these have served, where they placed
 * conversations and what waits there.
 */
export function hearOthers({ traffic, clock }: HearingFacts): (others: readonly SeenReport[]) => void {
  const ofModel = new Map(traffic.map(({ cluster, admission }) => [cluster.model, admission.peers]));
  return (others) => {
    const nowMs = clock.nowMs();
    for (const { report, ageMs } of others)
      for (const { model, turns } of report.models)
        if (turns) ofModel.get(model)?.hear(report.id, turns, nowMs - ageMs);
  };
}
