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
      .describe("The number of connections that may be open; one more is closed as soon as it is accepted."),
    maxConcurrentStreams: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(1_024)
      .describe(
        "The number of calls that one connection may have open at once; HTTP/2 makes its client wait with further ones.",
      ),
    reflection: z
      .boolean()
      .default(true)
      .describe("Whether callers with a key may ask for the contract over gRPC server reflection."),
  })
  .optional()
  .describe(
    "Where internal clients call `svc.inference.v1.InferenceService` itself over gRPC, with the keys and limits of the public API; without this section nowhere.",
  );

export type GrpcSettings = NonNullable<z.infer<typeof grpcSchema>>;
