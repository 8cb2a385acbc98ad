import { performance } from "node:perf_hooks";
import { Counter, Gauge, type Registry } from "prom-client";
import { PRIORITY_CLASSES } from "../../../deploy/runtime/queue/fair-queue.ts";
import { OVERLOAD_ACTIONS, type OverloadManager, RESOURCE_MONITORS } from "../../overload/overload-manager.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import type { ClusterTraffic } from "../../upstream/cluster/cluster-traffic.ts";
import type { ContinuationBudget } from "../../upstream/continuation/continuation-budget.ts";

/* Metrics that are read from their owners at each scrape, under Envoy's names where Envoy has the thing. */

type Labels = Readonly<Record<string, string>>;
/** One series: its labels and its value now. */
type Reading = readonly [labels: Labels, value: number];
type Read = () => Iterable<Reading>;

/** Returns what registers gauges or counters. Series come and go with their endpoints: each scrape begins with none. */
function metrics(registry: Registry, type: "gauge" | "counter", ...labelNames: string[]) {
  const Metric: typeof Gauge<string> | typeof Counter<string> = type === "gauge" ? Gauge : Counter;
  return (name: string, help: string, read: Read) =>
    new Metric({
      ...{ name, help, labelNames, registers: [registry] },
      collect() {
        this.reset();
        for (const [labels, value] of read()) this.inc(labels, value);
      },
    });
}

export function registerSocketGauges(
  registry: Registry,
  sockets: { readonly open: number },
  kept: { readonly bytes: number },
): void {
  const gauge = metrics(registry, "gauge");
  gauge("svc_websockets_open", "Open WebSockets.", () => [[{}, sockets.open]]);
  gauge("svc_websocket_kept_bytes", "Bytes of the conversations of open WebSockets.", () => [[{}, kept.bytes]]);
}

/** `now` is a monotonic clock in milliseconds; default: the system's. */
export function registerClusterGauges(
  registry: Registry,
  manager: ClusterManager,
  now: () => number = () => performance.now(),
): void {
  const each: EachCluster = (value) => () =>
    manager.clusters.flatMap((cluster): Reading[] => {
      const current = value(cluster);
      return current === undefined ? [] : [[{ cluster: cluster.name }, current]];
    });
  registerMembership(registry, each, now);
  registerDiscovery(registry, each);
  registerEndpoints(registry, manager);
}

type Cluster = ClusterManager["clusters"][number];
/** Returns the series of the clusters for which `value` has a number. */
type EachCluster = (value: (cluster: Cluster) => number | undefined) => Read;

function registerMembership(registry: Registry, each: EachCluster, now: () => number): void {
  const flagged = (flag: string) =>
    each(({ members }) => members.filter((member) => member.healthFlags(now()).includes(flag)).length);
  const ofCluster = metrics(registry, "gauge", "cluster");
  ofCluster(
    "svc_cluster_membership",
    "Endpoints of the cluster, whatever their state.",
    each((one) => one.members.length),
  );
  ofCluster(
    "svc_cluster_expected_endpoints",
    "Endpoints that the cluster should have, where its configuration says so (expectedEndpoints).",
    each(({ settings }) => settings.expectedEndpoints),
  );
  ofCluster(
    "svc_cluster_membership_lost",
    "Endpoints that discovery has dropped although no operator drained them and they had not announced to leave, until as many have joined.",
    each(({ remembered }) => remembered.lost),
  );
  ofCluster(
    "svc_cluster_membership_left",
    "Endpoints that left as announced or ordered within two hours, and that none has replaced.",
    each(({ remembered }) => remembered.left),
  );
  ofCluster(
    "svc_cluster_membership_healthy",
    "Endpoints of the cluster that are healthy and may get requests.",
    each(({ healthyEndpoints }) => healthyEndpoints.length),
  );
  ofCluster(
    "svc_cluster_outlier_ejections_active",
    "Endpoints of the cluster that are ejected as outliers now.",
    flagged("/failed_outlier_check"),
  );
  ofCluster(
    "svc_cluster_membership_draining",
    "Endpoints of the cluster that drain and get no new requests.",
    flagged("/draining"),
  );
}

function registerDiscovery(registry: Registry, each: EachCluster): void {
  const ofClusterCounts = metrics(registry, "counter", "cluster");
  ofClusterCounts(
    "svc_cluster_update_attempt_total",
    "Look-ups of the cluster's endpoints by discovery: DNS queries, or reads of the endpoint file.",
    each(({ discovery }) => discovery.attempts),
  );
  ofClusterCounts(
    "svc_cluster_update_success_total",
    "Look-ups by discovery whose answer could be used.",
    each(({ discovery }) => discovery.successes),
  );
  ofClusterCounts(
    "svc_cluster_update_failure_total",
    "Look-ups by discovery that got no answer.",
    each(({ discovery }) => discovery.failures),
  );
  ofClusterCounts(
    "svc_cluster_update_rejected_total",
    "Look-ups by discovery whose answer could not be used; the endpoints stayed as they were.",
    each(({ discovery }) => discovery.rejected),
  );
}

function registerEndpoints(registry: Registry, manager: ClusterManager): void {
  const members = (value: (member: Cluster["members"][number]) => number) => () =>
    manager.clusters.flatMap(({ name, members: all }) =>
      all.map((member): Reading => [{ cluster: name, endpoint: member.address }, value(member)]),
    );
  const ofClusterEndpoint = metrics(registry, "gauge", "cluster", "endpoint");
  ofClusterEndpoint(
    "svc_endpoint_slots",
    "Generations that the endpoint can run at once, by cluster.",
    members(({ slots }) => slots),
  );
  ofClusterEndpoint(
    "svc_endpoint_running",
    "Generations of all gateways that run on the endpoint, as it reports; 0 where it reports nothing.",
    members(({ running }) => running),
  );
  ofClusterEndpoint(
    "svc_endpoint_queue",
    "Generations of all gateways that wait in the endpoint's queue, as it reports; 0 where it reports nothing.",
    members(({ waiting }) => waiting),
  );
  ofClusterEndpoint(
    "svc_endpoint_kv_cache_usage_ratio",
    "Share of the endpoint's KV memory in use, 0 to 1, as it reports; 0 where it reports nothing.",
    members(({ kvUse }) => kvUse),
  );
  ofClusterEndpoint(
    "svc_endpoint_tokens_per_second",
    "Tokens per second that one generation on the endpoint gets, as it reports; 0 where it reports nothing.",
    members(({ decodeTokensPerSecond }) => decodeTokensPerSecond ?? 0),
  );
  const ofEndpoint = metrics(registry, "gauge", "endpoint");
  ofEndpoint("svc_endpoint_rq_active", "Calls of this gateway that are open on the endpoint, for all its models.", () =>
    manager.endpoints.map(({ address, activeRequests }): Reading => [{ endpoint: address }, activeRequests]),
  );
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
  registry: Registry,
  traffic: readonly TrafficView[],
  budget: Pick<ContinuationBudget, "answers" | "bytes" | "maxBytes">,
): void {
  registerRequests(registry, traffic);
  registerBreakers(registry, traffic);
  registerKeptAnswers(registry, budget);
}

function registerRequests(registry: Registry, traffic: readonly TrafficView[]): void {
  const each = (value: (view: TrafficView) => number) => () =>
    traffic.map((view): Reading => [{ cluster: view.cluster.model }, value(view)]);
  const ofQueue = metrics(registry, "gauge", "model", "class");
  ofQueue("svc_queue_depth", "Requests that wait for an endpoint of the model now, by class of service.", () =>
    traffic.flatMap(({ cluster, admission }) =>
      PRIORITY_CLASSES.map((name): Reading => [{ model: cluster.model, class: name }, admission.pendingOf(name)]),
    ),
  );
  const ofCluster = metrics(registry, "gauge", "cluster");
  ofCluster(
    "svc_cluster_upstream_rq_pending_active",
    "Requests that wait for an endpoint of the cluster now, those included that are held while none is available.",
    each(({ admission }) => admission.pending),
  );
  ofCluster(
    "svc_cluster_upstream_rq_held",
    "Requests that are held now because no endpoint of the cluster is available; they count in upstream_rq_pending_active, too.",
    each(({ admission }) => admission.held.requests),
  );
  ofCluster(
    "svc_cluster_upstream_rq_held_bytes",
    "The size of the bodies of the requests that are held now because no endpoint of the cluster is available, in bytes.",
    each(({ admission }) => admission.held.bytes),
  );
  ofCluster(
    "svc_cluster_upstream_rq_count_active",
    "Token counts that endpoints of the cluster are asked for now.",
    each(({ runningCounts }) => runningCounts),
  );
  ofCluster(
    "svc_cluster_upstream_rq_retry_active",
    "Calls that repeat a failed one and are open now.",
    each(({ budget }) => budget.activeRetries),
  );
  ofCluster(
    "svc_cluster_upstream_rq_continuation_active",
    "Requests that have lost their engine and that no other one has taken up yet.",
    each(({ budget }) => budget.activeContinuations),
  );
  const ofClusterCounts = metrics(registry, "counter", "cluster");
  ofClusterCounts(
    "svc_cluster_upstream_rq_pending_overflow_total",
    "Requests that found the cluster's queue full.",
    each(({ admission }) => admission.breakerState().pendingOverflows),
  );
  ofClusterCounts(
    "svc_cluster_upstream_rq_retry_overflow_total",
    "Repeated calls that the cluster's retry budget did not allow.",
    each(({ budget }) => budget.overflows),
  );
}

function registerBreakers(registry: Registry, traffic: readonly TrafficView[]): void {
  type Breaker = ReturnType<TrafficView["admission"]["breakerState"]>;
  const breakers = (value: (state: Breaker) => readonly [rq: number, pending: number]) => () =>
    traffic.flatMap(({ cluster: { model }, admission }): Reading[] => {
      const [rq, pending] = value(admission.breakerState());
      return [
        [{ cluster: model, kind: "rq" }, rq],
        [{ cluster: model, kind: "rq_pending" }, pending],
      ];
    });
  const ofClusterKind = metrics(registry, "gauge", "cluster", "kind");
  ofClusterKind(
    "svc_cluster_circuit_breakers_open",
    "1 while a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending); else 0.",
    breakers((state) => [Number(state.requestsOpen), Number(state.pendingOpen)]),
  );
  ofClusterKind(
    "svc_cluster_circuit_breakers_remaining",
    "Requests until a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending).",
    breakers((state) => [state.remainingRequests, state.remainingPending]),
  );
}

function registerKeptAnswers(
  registry: Registry,
  budget: Pick<ContinuationBudget, "answers" | "bytes" | "maxBytes">,
): void {
  const ofGateway = metrics(registry, "gauge");
  ofGateway("svc_answers_kept", "Answers that are kept now so that another engine could continue them.", () => [
    [{}, budget.answers],
  ]);
  ofGateway(
    "svc_answers_kept_bytes",
    "Memory of the answers that are kept now so that another engine could continue them, their requests included, in bytes.",
    () => [[{}, budget.bytes]],
  );
  ofGateway(
    "svc_answers_kept_limit_bytes",
    "The most memory that kept answers may take up, continuation.maxBytes, in bytes.",
    () => [[{}, budget.maxBytes]],
  );
}

/** Registers pressures, actions and bodies in flight after Envoy's `overload.*`. */
export function registerOverloadGauges(registry: Registry, overload: OverloadManager): void {
  const ofResource = metrics(registry, "gauge", "resource");
  ofResource("svc_overload_pressure_ratio", "Used share of a resource of this process, 0 to 1, by resource.", () =>
    RESOURCE_MONITORS.map((one): Reading => [{ resource: snake(one) }, overload.pressures[one]]),
  );
  const ofAction = metrics(registry, "gauge", "action");
  ofAction("svc_overload_action_active", "1 while an overload action is in force, by action; else 0.", () =>
    OVERLOAD_ACTIONS.map((one): Reading => [{ action: snake(one) }, Number(overload.isActive(one))]),
  );
  const ofGateway = metrics(registry, "gauge");
  ofGateway(
    "svc_inflight_body_bytes",
    "Bytes of request bodies in flight, from their announcement until an engine has accepted them.",
    () => [[{}, overload.bodies.bytes]],
  );
  ofGateway(
    "svc_inflight_bodies_waiting",
    "Requests whose body waits, unread, for room among the bodies in flight.",
    () => [[{}, overload.bodies.waiting]],
  );
}

/** Writes a name in snake case, as in Envoy's stats. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
