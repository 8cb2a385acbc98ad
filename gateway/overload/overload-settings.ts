import * as z from "zod";

const resourceMonitors = z
  .strictObject({
    fixedHeap: z
      .strictObject({
        maxHeapSizeBytes: z
          .int()
          .min(1)
          .optional()
          .describe("Heap size, in bytes, that counts as all of the resource; default: V8's heap limit."),
      })
      .prefault({})
      .describe("Use of the JavaScript heap."),
    globalDownstreamMaxConnections: z
      .strictObject({
        maxActiveDownstreamConnections: z
          .int()
          .min(1)
          .optional()
          .describe(
            "Most open connections of callers; a further one is closed without a reply. Default: three quarters of `ulimit -n`. The gRPC listener has as many, at most 1,024.",
          ),
      })
      .prefault({})
      .describe("Open connections of callers."),
    inflightBodyBytes: z
      .strictObject({
        maxBytes: z
          .int()
          .min(1)
          .optional()
          .describe(
            "Bytes of all bodies from their announcement until an engine has accepted them; default: a quarter of the memory, at most 536870912. Further bodies wait unread for up to 10 s, then get 503 (529 in Format B), or 429 where the tenant's half is used up.",
          ),
      })
      .prefault({})
      .describe("Request bodies in flight."),
  })
  .prefault({})
  .describe("The limits of resources. Memory is that of the container or machine, and the event loop may be 3 s late.");

/** Schema of the settings of the overload manager, Envoy's `overload_manager`. */
export const overloadSchema = z
  .strictObject({ resourceMonitors })
  .prefault({})
  .describe(
    "From 85 % of heap or memory the answers kept for continuation are dropped, from 95 % of a resource new requests get 503 (529 in Format B). An action begins after two checks, 250 ms apart, and ends after four that find all resources 10 % below.",
  );

export type OverloadSettings = Readonly<z.infer<typeof overloadSchema>>;
