import * as z from "zod";

function hasPort(address: string): boolean {
  const port = Number(address.slice(address.lastIndexOf(":") + 1));
  return port >= 1 && port <= 65_535;
}

/** `host:port`, from 1 to 65535; an IPv6 address stands in brackets. */
export const hostPortSchema = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.%]+\]|[^\s/:[\]]+):\d{1,5}$/, "expected host:port")
  .refine(hasPort, "expected a port from 1 to 65535");

/** One endpoint of a cluster, as configuration and endpoint files name it. */
export const endpointSchema = z.strictObject({
  address: hostPortSchema.describe("host:port of an engine node's gRPC."),
  priority: z.int().min(0).max(127).default(0).describe("0 is used first; the next ones as far as 0 is not enough."),
  locality: z.string().max(128).default("").describe("Zone or rack."),
  loadBalancingWeight: z.int().min(1).max(128).default(1).describe("Share of the requests beside other endpoints."),
  healthStatus: z
    .enum(["healthy", "unhealthy", "draining"])
    .default("healthy")
    .describe("unhealthy: not used whatever health checks say; draining: no new requests."),
});

/** Each address once. */
export const endpointsSchema = z
  .array(endpointSchema)
  .refine((all) => new Set(all.map(({ address }) => address)).size === all.length, "an address stands there twice");

export type EndpointSpec = Readonly<z.infer<typeof endpointSchema>>;
