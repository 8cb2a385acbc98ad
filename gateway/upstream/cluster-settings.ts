import * as z from "zod";
import { discoveryShapes } from "./discovery/discovery.ts";
import { healthCheckSchema } from "./endpoint/health-checker.ts";
import { outlierSchema } from "./endpoint/outlier-detector.ts";
import { tlsSchema } from "./endpoint/upstream-tls.ts";
import { balancerShape } from "./load-balancing/policies.ts";
import { circuitBreakerShape } from "./queue/circuit-breaker-settings.ts";
import { retryBudgetSchema } from "./retry/retry-settings.ts";

const everyCluster = {
  model: z.string().min(1).describe("The id of the model of `catalog` that the endpoints serve."),
  ...balancerShape,
  healthChecks: healthCheckSchema,
  outlierDetection: outlierSchema,
  circuitBreakers: z
    .strictObject({ ...circuitBreakerShape, retryBudget: retryBudgetSchema })
    .prefault({})
    .describe("How many requests run and wait at once."),
  tls: tlsSchema.optional(),
  expectedEndpoints: z
    .int()
    .min(0)
    .max(100_000)
    .optional()
    .describe(
      "The number of endpoints that the cluster should have: fewer raise the alert SvcEndpointsGone; without it, fewer than the median of the last hour do. It changes nothing else.",
    ),
};

/** The schema of one cluster: its endpoints, and how requests are balanced over them. */
const clusterSchema = z.discriminatedUnion("type", [
  z.strictObject({ ...everyCluster, ...discoveryShapes.static }),
  z.strictObject({ ...everyCluster, ...discoveryShapes.strictDns }),
  z.strictObject({ ...everyCluster, ...discoveryShapes.file }),
]);

/** One cluster as configured: its settings and its discovery. */
export type ClusterConfig = z.infer<typeof clusterSchema>;

/** The settings of one cluster, independent of its discovery type. */
export type ClusterSettings = Readonly<Pick<ClusterConfig, keyof typeof everyCluster>>;

function refuseSecondCluster(clusters: readonly ClusterConfig[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, { model }] of clusters.entries()) {
    if (seen.has(model))
      context.addIssue({ code: "custom", path: [index, "model"], message: `${model} has a cluster already` });
    seen.add(model);
  }
}

/** Refuses two ways to secure one address: a node listens in one way only, so one of them is a mistake. */
function refuseUnequalTls(clusters: readonly ClusterConfig[], context: z.RefinementCtx): void {
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

/** The schema of the list of all clusters: at most one for each model, and each address secured in one way only. */
export const clustersSchema = z
  .array(clusterSchema)
  .superRefine(refuseSecondCluster)
  .superRefine(refuseUnequalTls)
  .describe("At most one per model; a model without one is answered with 503.");
