import * as z from "zod";
import { hostPortSchema } from "../../../deploy/runtime/config/process-schema.ts";

/** The schema of one endpoint of a cluster, in configuration and endpoint files. */
export const endpointSchema = z.strictObject({
  address: hostPortSchema.describe("The host and port of an engine node's gRPC, as host:port."),
  loadBalancingWeight: z
    .int()
    .min(1)
    .max(128)
    .default(1)
    .describe("The share of the requests that the endpoint gets beside others."),
  healthStatus: z
    .enum(["healthy", "unhealthy", "draining"])
    .default("healthy")
    .describe(
      "The health that is known from outside: an unhealthy endpoint is not used whatever health checks say, a draining one gets no new requests.",
    ),
});

/** The schema of a list of endpoints, each address once. */
export const endpointsSchema = z
  .array(endpointSchema)
  .refine((all) => new Set(all.map(({ address }) => address)).size === all.length, "an address stands there twice");

/** The settings of one endpoint of a cluster, with defaults. */
export type EndpointSpec = Readonly<z.infer<typeof endpointSchema>>;
