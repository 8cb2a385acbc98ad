import * as z from "zod";
import { MAX_PENDING_OF_KEY, MAX_PENDING_REQUESTS, PENDING_PER_SLOT } from "../admission/slot-request.ts";
import { discoveryShapes } from "../discovery/discovery.ts";
import { healthCheckSchema } from "../endpoint/health-checker.ts";
import { outlierSchema } from "../endpoint/outlier-detector.ts";
import { tlsSchema } from "../endpoint/upstream-tls.ts";
import { balancerShape } from "../load-balancing/policies/policies.ts";

/** The limits on running and waiting requests, Envoy's `circuit_breakers.thresholds`. */
const circuitBreakersSchema = z
  .strictObject({
    maxRequestsPerEndpoint: z
      .int()
      .min(0)
      .optional()
      .describe("Number of requests that run at once on one endpoint; without it, as many as it has slots."),
    maxPendingRequests: z
      .int()
      .min(0)
      .optional()
      .describe(
        `The number of the cluster's requests that may wait; without it, ${PENDING_PER_SLOT} for each slot, at most ${MAX_PENDING_REQUESTS}. Of one key ${MAX_PENDING_OF_KEY}, unless its record has another number.`,
      ),
    noEndpointHoldMs: z
      .int()
      .min(0)
      .default(120_000)
      .describe(
        `Milliseconds for which a request is held while the cluster has no available endpoint, with keep-alives for a stream; one in a single piece, before work on it is lost, 50 s at most. 0 holds none. At most ${MAX_PENDING_REQUESTS} requests with 64 MiB of bodies are held, of one tenant half of what the others leave. Others get 503 (529 in Format B) at once.`,
      ),
  })
  .prefault({})
  .describe("How many requests run and wait at once.");

const prefillSchema = z
  .discriminatedUnion("type", [
    z.strictObject(discoveryShapes.static),
    z.strictObject(discoveryShapes.strictDns),
    z.strictObject(discoveryShapes.file),
  ])
  .describe(
    "Nodes of the same engine that read long prompts for the endpoints and answer nothing; what they cannot take the endpoints read themselves. Needs lbPolicy prefix_affinity. Without it, each endpoint reads its own prompts.",
  );

const everyCluster = {
  model: z.string().min(1).describe("The id of the model of `catalog` that the endpoints serve."),
  ...balancerShape,
  healthChecks: healthCheckSchema,
  outlierDetection: outlierSchema,
  circuitBreakers: circuitBreakersSchema,
  tls: tlsSchema.optional(),
  prefill: prefillSchema.optional(),
  expectedEndpoints: z
    .int()
    .min(0)
    .max(100_000)
    .optional()
    .describe(
      "Number of endpoints that the cluster should have: fewer raise the alert SvcEndpointsGone, as lost ones do.",
    ),
};

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

/** Refuses prefill nodes that would never be used: only one policy knows how much of a prompt is unread. */
function refuseIdlePrefill(clusters: readonly ClusterConfig[], context: z.RefinementCtx): void {
  for (const [index, { prefill, lbPolicy }] of clusters.entries())
    if (prefill && lbPolicy !== "prefix_affinity")
      context.addIssue({
        code: "custom",
        path: [index, "prefill"],
        message: `needs lbPolicy prefix_affinity, not ${lbPolicy}`,
      });
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

export const clustersSchema = z
  .array(clusterSchema)
  .superRefine(refuseSecondCluster)
  .superRefine(refuseUnequalTls)
  .superRefine(refuseIdlePrefill)
  .describe("At most one per model; a model without one is answered with 503.");
