import { performance } from "node:perf_hooks";
import { Counter, Gauge, type Registry } from "prom-client";
import type { ClusterManager } from "../../../upstream/cluster-manager.ts";

type Cluster = ClusterManager["clusters"][number];
type Member = Cluster["members"][number];

/**
 * Registers clusters and endpoints as gauges under Envoy's names, read at the moment of the scrape. `now` is a
 * monotonic clock in milliseconds; default: the system's.
 */
export function registerClusterStats(
  registry: Registry,
  clusters: ClusterManager,
  now: () => number = () => performance.now(),
): void {
  registerMemberships(registry, clusters, now);
  registerDiscovery(registry, clusters);
  registerMembers(registry, clusters);
  new Gauge({
    name: "svc_endpoint_rq_active",
    help: "Calls of this gateway that are open on the endpoint, for all its models.",
    labelNames: ["endpoint"],
    registers: [registry],
    collect() {
      this.reset();
      for (const { address, activeRequests } of clusters.endpoints) this.set({ endpoint: address }, activeRequests);
    },
  });
}

function perCluster(registry: Registry, clusters: ClusterManager) {
  return (name: string, help: string, value: (cluster: Cluster) => number | undefined) =>
    new Gauge({
      name: `svc_cluster_${name}`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        for (const cluster of clusters.clusters) {
          const now = value(cluster);
          if (now !== undefined) this.set({ cluster: cluster.model }, now);
        }
      },
    });
}

function registerMemberships(registry: Registry, clusters: ClusterManager, now: () => number): void {
  const gauge = perCluster(registry, clusters);
  const flagged = ({ members }: Cluster, flag: string) =>
    members.filter((member) => member.healthFlags(now()).includes(flag)).length;
  gauge("membership", "Endpoints of the cluster, whatever their state.", ({ members }) => members.length);
  gauge(
    "expected_endpoints",
    "Endpoints that the cluster should have, where its configuration says so (expectedEndpoints).",
    ({ settings }) => settings.expectedEndpoints,
  );
  gauge(
    "membership_healthy",
    "Endpoints of the cluster that are healthy and may get requests.",
    ({ healthyEndpoints }) => healthyEndpoints.length,
  );
  gauge("outlier_ejections_active", "Endpoints of the cluster that are ejected as outliers now.", (c) =>
    flagged(c, "/failed_outlier_check"),
  );
  gauge("membership_draining", "Endpoints of the cluster that drain and get no new requests.", (c) =>
    flagged(c, "/draining"),
  );
}

function registerDiscovery(registry: Registry, clusters: ClusterManager): void {
  const counter = (name: string, help: string, value: (discovery: Cluster["discovery"]) => number) =>
    new Counter({
      name: `svc_cluster_update_${name}_total`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        this.reset();
        for (const { model, discovery } of clusters.clusters) this.inc({ cluster: model }, value(discovery));
      },
    });
  counter(
    "attempt",
    "Look-ups of the cluster's endpoints by discovery: DNS queries, or reads of the endpoint file.",
    ({ attempts }) => attempts,
  );
  counter("success", "Look-ups by discovery whose answer could be used.", ({ successes }) => successes);
  counter("failure", "Look-ups by discovery that got no answer.", ({ failures }) => failures);
  counter(
    "rejected",
    "Look-ups by discovery whose answer could not be used; the endpoints stayed as they were.",
    ({ rejected }) => rejected,
  );
}

/**
 * Registers the metrics that a node reports about one of its models. Endpoints come and go, so old series are removed.
 */
function registerMembers(registry: Registry, clusters: ClusterManager): void {
  const gauge = (name: string, help: string, value: (member: Member) => number) =>
    new Gauge({
      name: `svc_endpoint_${name}`,
      help,
      labelNames: ["cluster", "endpoint"],
      registers: [registry],
      collect() {
        this.reset();
        for (const { model, members } of clusters.clusters)
          for (const member of members) this.set({ cluster: model, endpoint: member.address }, value(member));
      },
    });
  gauge("slots", "Generations that the endpoint can run at once, by cluster.", ({ slots }) => slots);
  gauge(
    "running",
    "Generations of all gateways that run on the endpoint, as it reports; 0 where it reports nothing.",
    ({ running }) => running,
  );
  gauge(
    "queue",
    "Generations of all gateways that wait in the endpoint's queue, as it reports; 0 where it reports nothing.",
    ({ waiting }) => waiting,
  );
  gauge(
    "kv_cache_usage_ratio",
    "Share of the endpoint's KV memory in use, 0 to 1, as it reports; 0 where it reports nothing.",
    ({ kvUse }) => kvUse,
  );
  gauge(
    "tokens_per_second",
    "Tokens per second that one generation on the endpoint gets, as it reports; 0 where it reports nothing.",
    ({ decodeTokensPerSecond }) => decodeTokensPerSecond ?? 0,
  );
}
