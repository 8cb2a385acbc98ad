import type { ServiceError } from "@grpc/grpc-js";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { RequestBuffer } from "../request/request-buffer.ts";
import { asBuffer, type CallHeaders } from "../wire/generate-wire.ts";
import { metadataOf } from "../wire/grpc-js-wire.ts";
import { HandOver } from "../wire/hand-over.ts";
import { fromGrpc, stalled, type UpstreamFailure } from "./grpc-error.ts";

export type CountTokensOptions = {
  readonly headers: CallHeaders;
  readonly deadline: number;
  readonly clock: Clock;
  readonly connectMs: number;
};

/** Resolves to the tokens or the failure, never rejects; aborting the signal cancels. */
export function callCountTokens(
  endpoint: Endpoint,
  request: RequestBuffer,
  { headers, deadline, clock, connectMs }: CountTokensOptions,
  signal: AbortSignal,
): Promise<number | UpstreamFailure> {
  const { path, responseDeserialize } = InferenceServiceService.countTokens;
  return new Promise((resolve) => {
    let failure: UpstreamFailure | undefined;
    // No message precedes the count: over an established connection, the endpoint has received the prompt.
    const reached = endpoint.connected;
    const handOver = new HandOver({ lane: endpoint.handOvers, tenant: request.tenant, bytes: request.size });
    const call = endpoint.client.makeUnaryRequest(
      path,
      asBuffer,
      responseDeserialize,
      request.bytes,
      metadataOf(headers),
      { deadline, interceptors: [handOver.interceptor] },
      (error: ServiceError | null, reply) => {
        handOver.end();
        cancelConnect();
        stopListening();
        resolve(reply ? reply.inputTokens : (failure ?? fromGrpc(error as ServiceError, reached)));
      },
    );
    const cancel = () => call.cancel();
    const cancelConnect = clock.after(connectMs, () => {
      if (endpoint.connected) return;
      failure = stalled("connect");
      cancel();
    });
    const stopListening = onAbort(signal, cancel);
  });
}
