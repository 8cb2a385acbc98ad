import { performance } from "node:perf_hooks";
import type { Series } from "../../../deploy/runtime/metrics/metric-table.ts";
import { PRIORITY_CLASSES } from "../../../deploy/runtime/queue/fair-queue.ts";
import type { KeyStoreStatus } from "../../keys/key-store.ts";
import { OVERLOAD_ACTIONS, type OverloadManager, RESOURCE_MONITORS } from "../../overload/overload-manager.ts";
import { OPENINGS, type Sealing } from "../../sealing/sealing.ts";
import type { GatewayMetrics } from "../../stats/metrics.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import type { ClusterTraffic } from "../../upstream/cluster/cluster-traffic.ts";
import type { ContinuationBudget } from "../../upstream/continuation/continuation-budget.ts";

/* Metrics that are read from their owners at each scrape, under Envoy's names where Envoy has the thing. */

type Readable = Pick<GatewayMetrics, "read">;

export function registerSocketGauges(
  metrics: Readable,
  sockets: { readonly open: number },
  kept: { readonly bytes: number },
): void {
  metrics.read({
    svc_websockets_open: () => sockets.open,
    svc_websocket_kept_bytes: () => kept.bytes,
  });
}

/** `now` is a monotonic clock in milliseconds; default: the system's. */
export function registerClusterGauges(
  metrics: Readable,
  manager: ClusterManager,
  now: () => number = () => performance.now(),
): void {
  type Cluster = ClusterManager["clusters"][number];
  const each = (value: (cluster: Cluster) => number | undefined) => () =>
    manager.clusters.map((cluster): Series<"cluster"> => [{ cluster: cluster.name }, value(cluster)]);
  const flagged = (flag: string) =>
    each(({ members }) => members.filter((member) => member.healthFlags(now()).includes(flag)).length);
  const ofMembers = (value: (member: Cluster["members"][number]) => number) => () =>
    manager.clusters.flatMap(({ name, members }) =>
      members.map(
        (member): Series<"cluster" | "endpoint"> => [{ cluster: name, endpoint: member.address }, value(member)],
      ),
    );
  metrics.read({
    svc_cluster_membership: each(({ members }) => members.length),
    svc_cluster_expected_endpoints: each(({ settings }) => settings.expectedEndpoints),
    svc_cluster_membership_lost: each(({ remembered }) => remembered.lost),
    svc_cluster_membership_left: each(({ remembered }) => remembered.left),
    svc_cluster_membership_healthy: each(({ healthyEndpoints }) => healthyEndpoints.length),
    svc_cluster_outlier_ejections_active: flagged("/failed_outlier_check"),
    svc_cluster_membership_draining: flagged("/draining"),
    svc_cluster_update_attempt_total: each(({ discovery }) => discovery.attempts),
    svc_cluster_update_success_total: each(({ discovery }) => discovery.successes),
    svc_cluster_update_failure_total: each(({ discovery }) => discovery.failures),
    svc_cluster_update_rejected_total: each(({ discovery }) => discovery.rejected),
    svc_endpoint_slots: ofMembers(({ slots }) => slots),
    svc_endpoint_running: ofMembers(({ running }) => running),
    svc_endpoint_queue: ofMembers(({ waiting }) => waiting),
    svc_endpoint_kv_cache_usage_ratio: ofMembers(({ kvUse }) => kvUse),
    svc_endpoint_tokens_per_second: ofMembers(({ decodeTokensPerSecond }) => decodeTokensPerSecond ?? 0),
    svc_endpoint_rq_active: () =>
      manager.endpoints.map(({ address, activeRequests }) => [{ endpoint: address }, activeRequests]),
  });
}

/** The traffic of one cluster, as its gauges read it. */
export type TrafficView = {
  readonly cluster: Pick<ClusterTraffic["cluster"], "model">;
  readonly admission: Pick<ClusterTraffic["admission"], "pending" | "pendingOf" | "held" | "breakerState">;
  readonly runningCounts: number;
  readonly budget: Pick<ClusterTraffic["budget"], "activeRetries" | "activeContinuations" | "overflows">;
};

/** Registers queues, circuit breakers, retry budgets and the memory of resumable answers. */
export function registerTrafficGauges(
  metrics: Readable,
  traffic: readonly TrafficView[],
  budget: Pick<ContinuationBudget, "answers" | "bytes" | "maxBytes">,
): void {
  const each = (value: (view: TrafficView) => number) => () =>
    traffic.map((view): Series<"cluster"> => [{ cluster: view.cluster.model }, value(view)]);
  type Breaker = ReturnType<TrafficView["admission"]["breakerState"]>;
  const breakers = (value: (state: Breaker) => Readonly<Record<"rq" | "rq_pending", number>>) => () =>
    traffic.flatMap(({ cluster: { model }, admission }) =>
      Object.entries(value(admission.breakerState())).map(
        ([kind, current]): Series<"cluster" | "kind"> => [{ cluster: model, kind }, current],
      ),
    );
  metrics.read({
    svc_queue_depth: () =>
      traffic.flatMap(({ cluster: { model }, admission }) =>
        PRIORITY_CLASSES.map((name) => [{ model, class: name }, admission.pendingOf(name)] as const),
      ),
    svc_cluster_upstream_rq_pending_active: each(({ admission }) => admission.pending),
    svc_cluster_upstream_rq_held: each(({ admission }) => admission.held.requests),
    svc_cluster_upstream_rq_held_bytes: each(({ admission }) => admission.held.bytes),
    svc_cluster_upstream_rq_count_active: each(({ runningCounts }) => runningCounts),
    svc_cluster_upstream_rq_retry_active: each(({ budget }) => budget.activeRetries),
    svc_cluster_upstream_rq_continuation_active: each(({ budget }) => budget.activeContinuations),
    svc_cluster_upstream_rq_pending_overflow_total: each(({ admission }) => admission.breakerState().pendingOverflows),
    svc_cluster_upstream_rq_retry_overflow_total: each(({ budget }) => budget.overflows),
    svc_cluster_circuit_breakers_open: breakers(({ requestsOpen, pendingOpen }) => ({
      rq: Number(requestsOpen),
      rq_pending: Number(pendingOpen),
    })),
    svc_cluster_circuit_breakers_remaining: breakers(({ remainingRequests, remainingPending }) => ({
      rq: remainingRequests,
      rq_pending: remainingPending,
    })),
    svc_answers_kept: () => budget.answers,
    svc_answers_kept_bytes: () => budget.bytes,
    svc_answers_kept_limit_bytes: () => budget.maxBytes,
  });
}

/** Registers pressures, actions and bodies in flight after Envoy's `overload.*`. */
export function registerOverloadGauges(metrics: Readable, overload: OverloadManager): void {
  metrics.read({
    svc_overload_pressure_ratio: () =>
      RESOURCE_MONITORS.map((one) => [{ resource: snake(one) }, overload.pressures[one]]),
    svc_overload_action_active: () =>
      OVERLOAD_ACTIONS.map((one) => [{ action: snake(one) }, Number(overload.isActive(one))]),
    svc_inflight_body_bytes: () => overload.bodies.bytes,
    svc_inflight_bodies_waiting: () => overload.bodies.waiting,
  });
}

export function registerKeyGauges(metrics: Readable, status: () => KeyStoreStatus): void {
  metrics.read({
    svc_keystore_keys: () => status().keys,
    svc_keystore_last_success_timestamp_seconds: () => status().loadedAtMs / 1000,
    svc_keystore_load_errors_total: () => status().loadErrors,
    svc_keystore_went_back_total: () => status().wentBack,
    svc_keystore_stale: () => Number(status().fault !== undefined),
    svc_keystore_refused_records: () => status().refused.length,
  });
}

/** Registers the sealing keys in force and the outcomes of opening sealed texts. */
export function registerSealingGauges(metrics: Readable, sealing: Pick<Sealing, "keyIds" | "openings">): void {
  metrics.read({
    svc_sealing_keys: () => sealing.keyIds.map((key_id, at) => [{ key_id, does: at === 0 ? "seals" : "opens" }, 1]),
    svc_sealed_texts_total: () => OPENINGS.map((result) => [{ result }, sealing.openings[result]]),
  });
}

/** Writes a name in snake case, as in Envoy's stats. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
