import { performance } from "node:perf_hooks";
import { Gauge, type Registry } from "prom-client";
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
  const perCluster = (name: string, help: string, value: (cluster: Cluster) => number) =>
    new Gauge({
      name: `svc_cluster_${name}`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        for (const cluster of clusters.clusters) this.set({ cluster: cluster.model }, value(cluster));
      },
    });
  const flagged = ({ members }: Cluster, flag: string) =>
    members.filter((member) => member.healthFlags(now()).includes(flag)).length;
  perCluster("membership_total", "Endpoints of the cluster.", ({ members }) => members.length);
  perCluster("membership_healthy", "Endpoints that take requests.", ({ healthyEndpoints }) => healthyEndpoints.length);
  perCluster("outlier_ejections_active", "Endpoints that are ejected.", (c) => flagged(c, "/failed_outlier_check"));
  perCluster("membership_draining", "Endpoints that get no new requests.", (c) => flagged(c, "/draining"));
  perCluster("update_attempt_total", "Times that discovery looked.", ({ discovery }) => discovery.attempts);
  perCluster("update_success_total", "Of those, with a usable answer.", ({ discovery }) => discovery.successes);
  perCluster("update_failure_total", "Of those, without an answer.", ({ discovery }) => discovery.failures);
  perCluster("update_rejected_total", "Of those, with an unusable one.", ({ discovery }) => discovery.rejected);

  // What a node reports about one of its models: endpoints come and go, so old series are taken out.
  const perMember = (name: string, help: string, value: (member: Member) => number) =>
    new Gauge({
      name: `svc_engine_${name}`,
      help,
      labelNames: ["cluster", "endpoint"],
      registers: [registry],
      collect() {
        this.reset();
        for (const { model, members } of clusters.clusters)
          for (const member of members) this.set({ cluster: model, endpoint: member.endpoint.address }, value(member));
      },
    });
  perMember("slots", "Generations that the endpoint runs at once.", ({ slots }) => slots);
  perMember("running", "Generations that run, as reported.", (member) => member.load(now()).running);
  perMember("queue", "Requests that wait there, as reported.", (member) => member.load(now()).waiting);
  perMember("kv_cache_usage_ratio", "Share of its KV cache in use, as reported.", (member) => member.load(now()).kvUse);
  perMember("tokens_per_second", "Tokens that it writes, as reported.", (member) => {
    return member.load(now()).decodeTokensPerSecond ?? 0;
  });
  new Gauge({
    name: "svc_endpoint_rq_active",
    help: "Calls that are open on an endpoint, of all its models.",
    labelNames: ["endpoint"],
    registers: [registry],
    collect() {
      this.reset();
      for (const { address, activeRequests } of clusters.endpoints) this.set({ endpoint: address }, activeRequests);
    },
  });
}
