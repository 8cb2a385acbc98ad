import type { ServiceError } from "@grpc/grpc-js";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import {
  type CountTokensRequest,
  InferenceServiceService,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { type CallHeaders, metadataOf } from "./generate-call.ts";
import { fromGrpc, stalled, type UpstreamFailure } from "./grpc-error.ts";

/** What a call needs beside the request. */
export type CountTokensOptions = {
  /** Go along as metadata. */
  readonly headers: CallHeaders;
  /** Wall clock, milliseconds. */
  readonly deadline: number;
  readonly clock: Clock;
  /** How long connecting may take. */
  readonly connectMs: number;
};

/** One CountTokens call: the tokens, or what went wrong. Never rejects; aborting the signal cancels it. */
export function callCountTokens(
  endpoint: Endpoint,
  request: CountTokensRequest,
  { headers, deadline, clock, connectMs }: CountTokensOptions,
  signal: AbortSignal,
): Promise<number | UpstreamFailure> {
  const { path, requestSerialize, responseDeserialize } = InferenceServiceService.countTokens;
  return new Promise((resolve) => {
    let failure: UpstreamFailure | undefined;
    const call = endpoint.client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadataOf(headers),
      { deadline },
      (error: ServiceError | null, reply) => {
        cancelConnect();
        letGo();
        resolve(reply ? reply.inputTokens : (failure ?? fromGrpc(error as ServiceError, false)));
      },
    );
    const cancel = () => call.cancel();
    const cancelConnect = clock.after(connectMs, () => {
      if (endpoint.connected) return;
      failure = stalled("connect");
      cancel();
    });
    const letGo = onAbort(signal, cancel);
  });
}
