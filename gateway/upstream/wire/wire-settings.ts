import * as z from "zod";

/** The schema of the settings on connections to engine nodes. */
export const upstreamSchema = z
  .strictObject({
    wire: z
      .enum(["grpc", "fast"])
      .default("fast")
      .describe(
        "What carries the calls that generate: `fast` is a client of HTTP/2 that does only what these calls need, on a connection of its own, for less work per token; `grpc` is grpc-js, as for all other calls. Nodes cannot tell them apart.",
      ),
  })
  .prefault({})
  .describe("How the gateway speaks to engine nodes.");

/** The transport of Generate calls to the nodes. */
export type WireKind = z.infer<typeof upstreamSchema>["wire"];
