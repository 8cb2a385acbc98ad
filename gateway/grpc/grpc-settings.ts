import * as z from "zod";
import { listenerTlsSchema, listenFields } from "../../deploy/runtime/config/process-schema.ts";

/** Schema of the listener for gRPC clients. */
export const grpcSchema = z
  .strictObject({
    ...listenFields(50_050),
    tls: listenerTlsSchema,
    maxConnections: z
      .int()
      .min(1)
      .default(1_024)
      .describe("Most open connections; a further one is closed as soon as it is accepted."),
    maxConcurrentStreams: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(1_024)
      .describe("Most open calls of one connection; its HTTP/2 client delays further ones."),
    reflection: z
      .boolean()
      .default(true)
      .describe("Whether callers with a key may read the contract by gRPC server reflection."),
  })
  .optional()
  .describe(
    "Listener of `svc.inference.v1.InferenceService` for internal gRPC clients, with the keys and limits of the public API; without this section there is none.",
  );

export type GrpcSettings = NonNullable<z.infer<typeof grpcSchema>>;
