import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";
import type { Cluster } from "./cluster.ts";
import { ClusterAdmission } from "./cluster-admission.ts";
import { Balancer } from "./load-balancing/balancer.ts";
import { BELIEVED_MS } from "./load-balancing/policies/prefix-affinity/prefix-affinity.ts";
import type { WorkLedger } from "./load-balancing/work-ledger.ts";
import type { Ejection } from "./outlier/outlier-detector.ts";
import { outlierOutcome } from "./outlier/outlier-outcome.ts";
import { CacheLedger } from "./prefixes/cache-ledger.ts";
import { RetryBudget } from "./retry/retry-budget.ts";
import { LOSS_KNOWN_MS } from "./retry/retry-policy.ts";

/** A cluster and everything that decides which of its endpoints a request meets, and whether and when. */
export class ClusterTraffic {
  /** The cluster that the traffic belongs to. */
  readonly cluster: Cluster;
  /** Lets requests onto the endpoints of the cluster, at once or after a wait in its queue. */
  readonly admission: ClusterAdmission;
  /** Bounds the retries of the cluster's requests. */
  readonly budget: RetryBudget;
  /** Explains what the caches of the endpoints did not have. */
  readonly ledger: CacheLedger;
  readonly #onEjection: (ejection: Ejection) => void;

  /**
   * Begins to judge the endpoints of a cluster. `onEjection` is called when one was ejected, or would have been; `work`
   * is the prefill work of all clusters; `random` returns numbers that are even over [0, 1).
   */
  constructor(
    cluster: Cluster,
    work: WorkLedger,
    clock: Clock,
    random: () => number,
    onEjection: (ejection: Ejection) => void,
  ) {
    this.cluster = cluster;
    this.admission = new ClusterAdmission(cluster, new Balancer(cluster, work, clock, random), clock, random);
    this.budget = new RetryBudget(cluster.settings.circuitBreakers.retryBudget);
    const described = (address: string) => cluster.member(address)?.endpoint.description(cluster.model);
    this.ledger = new CacheLedger({
      prefixes: cluster.prefixes,
      lifeOf: (address) => cluster.member(address)?.endpoint.startedAtMs,
      believedMs: () => BELIEVED_MS,
      blockTokensOf: (address) => described(address)?.kvBlockTokens ?? 0,
      keptConversationsOf: (address) => described(address)?.keptConversations ?? 0,
      viewOf: (address) => cluster.views.get(address),
    });
    this.#onEjection = onEjection;
  }

  /** Counts how a call on one of the endpoints ended; `failure` is undefined where it ended with the whole answer. */
  report(address: string, failure: UpstreamFailure | undefined, nowMs: number): void {
    const ending = failure?.ending ?? { kind: "completed" };
    const ejection = this.cluster.outliers.report(address, outlierOutcome(ending), nowMs);
    if (ejection) this.#onEjection(ejection);
    const fullForMs = failure?.error.retryAfterMs;
    const { room } = this.admission;
    if (ending.kind === "status" && ending.notReady && fullForMs !== undefined) room.holdBack(address, fullForMs);
    // Else the places that have become free there would go to those who wait, each of whom would lose a try by it.
    if (ending.kind === "reset" || ending.kind === "connect_failure") room.holdBack(address, LOSS_KNOWN_MS);
  }
}
