import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { AdmissionController } from "../admission/admission-controller.ts";
import type { UpstreamFailure } from "../call/grpc-error.ts";
import { type Ejection, outlierOutcome } from "../endpoint/outlier-detector.ts";
import { createPolicy } from "../load-balancing/policies/policies.ts";
import type { WorkLedger } from "../load-balancing/work-ledger.ts";
import { RetryBudget } from "../retry/retry-budget.ts";
import { LOSS_KNOWN_MS } from "../retry/retry-policy.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterMember } from "./cluster-member.ts";

export class ClusterTraffic {
  readonly cluster: Cluster;
  readonly admission: AdmissionController<ClusterMember>;
  readonly budget = new RetryBudget();
  runningCounts = 0;
  readonly #onEjection: (ejection: Ejection) => void;

  /** `onEjection` is called when an endpoint was ejected, or would have been; `random` is uniform over [0, 1). */
  constructor(
    cluster: Cluster,
    work: WorkLedger,
    clock: Clock,
    random: () => number,
    onEjection: (ejection: Ejection) => void,
  ) {
    this.cluster = cluster;
    const { settings, prefixes } = cluster;
    const policy = createPolicy(settings.lbPolicy, { prefixes, work, clock, random });
    this.admission = new AdmissionController(cluster, policy, clock, random);
    this.#onEjection = onEjection;
  }

  /** Records the end of a call on one of the endpoints; `failure` is undefined where the answer was complete. */
  report(address: string, failure: UpstreamFailure | undefined, nowMs: number): void {
    const ending = failure?.ending ?? { kind: "completed" };
    const ejection = this.cluster.outliers.report(address, outlierOutcome(ending), nowMs);
    if (ejection) this.#onEjection(ejection);
    const fullForMs = failure?.error.retryAfterMs;
    const { admission } = this;
    if (ending.kind === "status" && ending.notReady && fullForMs !== undefined) admission.holdBack(address, fullForMs);
    // Otherwise waiting requests would get the slots freed there, and each would lose an attempt.
    if (ending.kind === "reset" || ending.kind === "connect_failure") admission.holdBack(address, LOSS_KNOWN_MS);
  }
}
