import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import { CATALOG } from "../catalog.ts";
import { endpointsSchema, hostPortSchema } from "../upstream/discovery/endpoint-schema.ts";
import { balancerShape } from "../upstream/load-balancing/balancer-settings.ts";
import { circuitBreakerSchema } from "./circuit-breaker-schema.ts";
import { outlierSchema } from "./outlier-schema.ts";
import { tlsSchema } from "./tls-schema.ts";

const healthChecks = z
  .strictObject({
    intervalMs: milliseconds(5_000, "Between two checks of an endpoint that is well; its own word counts at once."),
    intervalJitterMs: z.int().min(0).default(1_000).describe("An interval is longer or shorter by up to this."),
    unhealthyIntervalMs: milliseconds(1_000, "Between two checks of an endpoint that is not well, or may not be."),
    timeoutMs: milliseconds(2_000, "How long an answer may take."),
    unhealthyThreshold: z.int().min(1).default(2).describe("Failed checks in a row that make an endpoint unhealthy."),
    healthyThreshold: z
      .int()
      .min(1)
      .default(2)
      .describe("Passed checks in a row that make it healthy again; the very first one is enough."),
  })
  .prefault({});

const everyCluster = {
  model: z.enum(CATALOG.map((model) => model.id)).describe("The catalog model that these endpoints serve."),
  ...balancerShape,
  healthChecks,
  outlierDetection: outlierSchema,
  circuitBreakers: circuitBreakerSchema,
  tls: tlsSchema.optional(),
};

/** One cluster: which endpoints a model has, and how requests are spread over them. Envoy's names, in camel case. */
export const clusterSchema = z.discriminatedUnion("type", [
  z.strictObject({
    ...everyCluster,
    type: z.literal("static").default("static").describe("The endpoints stand in this file."),
    endpoints: endpointsSchema.describe("Engine nodes; one node may stand in several clusters."),
  }),
  z.strictObject({
    ...everyCluster,
    type: z.literal("strict_dns").describe("The endpoints are the addresses that a host name has in DNS."),
    address: hostPortSchema.describe("host:port; every address that the host has is an endpoint."),
    dnsLookupFamily: z
      .enum(["v4_preferred", "v4_only", "v6_only", "all"])
      .default("v4_preferred")
      .describe("all: a node with IPv4 and IPv6 addresses is two endpoints."),
    dnsRefreshRateMs: milliseconds(1_000, "How often the host is looked up; while that fails, less and less often."),
  }),
  z.strictObject({
    ...everyCluster,
    type: z.literal("file").describe("The endpoints stand in a file of their own, which is followed."),
    path: z.string().min(1).describe("YAML or JSON with a list `endpoints`; followed while it changes."),
  }),
]);

type ClusterInput = z.infer<typeof clusterSchema>;

function refuseSecondCluster(clusters: readonly ClusterInput[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, { model }] of clusters.entries()) {
    if (seen.has(model))
      context.addIssue({ code: "custom", path: [index, "model"], message: `${model} has a cluster already` });
    seen.add(model);
  }
}

/** A node listens in one way only: of two that are written down for one address, one is a mistake. */
function refuseUnequalTls(clusters: readonly ClusterInput[], context: z.RefinementCtx): void {
  const seen = new Map<string, { readonly tls: string; readonly index: number }>();
  for (const [index, cluster] of clusters.entries()) {
    if (cluster.type !== "static") continue;
    const { caFile, certFile, keyFile, serverName } = cluster.tls ?? {};
    const tls = JSON.stringify([caFile, certFile, keyFile, serverName]);
    for (const { address } of cluster.endpoints) {
      const first = seen.get(address);
      if (!first) seen.set(address, { tls, index });
      else if (first.tls !== tls) {
        const message = `clusters.${first.index} has ${address} with other TLS settings`;
        context.addIssue({ code: "custom", path: [index, "tls"], message });
      }
    }
  }
}

export const clustersSchema = z
  .array(clusterSchema)
  .superRefine(refuseSecondCluster)
  .superRefine(refuseUnequalTls)
  .describe("At most one per model; a model without one is answered with 503.");
