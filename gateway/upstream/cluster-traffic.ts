import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";
import type { Cluster } from "./cluster.ts";
import { ClusterAdmission } from "./cluster-admission.ts";
import { Balancer } from "./load-balancing/balancer.ts";
import type { WorkLedger } from "./load-balancing/work-ledger.ts";
import type { Ejection } from "./outlier/outlier-detector.ts";
import { outlierOutcome } from "./outlier/outlier-outcome.ts";
import { RetryBudget } from "./retry/retry-budget.ts";

/** A cluster and everything that decides which of its endpoints a request meets, and whether and when. */
export class ClusterTraffic {
  readonly cluster: Cluster;
  readonly admission: ClusterAdmission;
  readonly budget: RetryBudget;
  readonly #clock: Clock;
  readonly #onEjection: (ejection: Ejection) => void;

  /** `onEjection` is called when an endpoint was ejected, or would have been. */
  constructor(
    cluster: Cluster,
    work: WorkLedger,
    clock: Clock,
    random: () => number,
    onEjection: (ejection: Ejection) => void,
  ) {
    this.cluster = cluster;
    this.admission = new ClusterAdmission(cluster, new Balancer(cluster, work, clock, random), clock);
    this.budget = new RetryBudget(cluster.settings.circuitBreakers.retryBudget);
    this.#clock = clock;
    this.#onEjection = onEjection;
    this.#tick();
  }

  /** Takes how a call on one of the endpoints ended; `failure` is undefined where it ended with the whole answer. */
  report(address: string, failure: UpstreamFailure | undefined, nowMs: number): void {
    const ending = failure?.ending ?? { kind: "completed" };
    const ejection = this.cluster.outliers.report(address, outlierOutcome(ending), nowMs);
    if (ejection) this.#onEjection(ejection);
    const fullForMs = failure?.error.retryAfterMs;
    if (ending.kind === "status" && ending.notReady && fullForMs !== undefined)
      this.admission.holdBack(address, fullForMs);
  }

  /** Judges the rates of an interval and lets the memory of ejections fade, interval by interval. */
  #tick(): void {
    this.#clock.after(this.cluster.settings.outlierDetection.intervalMs, () => {
      for (const ejection of this.cluster.outliers.tick(this.#clock.nowMs())) this.#onEjection(ejection);
      this.#tick();
    });
  }
}
