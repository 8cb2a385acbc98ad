import { type Client, connectivityState, Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  asBuffer,
  type CallHeaders,
  type GenerateWire,
  type WireCall,
  type WireListener,
  type WireRequest,
} from "./generate-wire.ts";

/** Makes gRPC metadata out of the headers of a call. */
export function metadataOf(headers: CallHeaders): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

/** Carries Generate calls over the channel of grpc-js that the endpoint has for all else, too. */
export class GrpcJsWire implements GenerateWire {
  readonly #client: () => Client;

  /** Makes a wire over the client that `client` returns, which is asked for at each use. */
  constructor(client: () => Client) {
    this.#client = client;
  }

  /** Opens a call. */
  open({ message, headers, deadline, handOver }: WireRequest, listener: WireListener): WireCall {
    const client = this.#client();
    const call = client.makeServerStreamRequest(
      InferenceServiceService.generate.path,
      asBuffer,
      (bytes) => bytes,
      message,
      metadataOf(headers),
      { deadline, interceptors: [handOver.interceptor] },
    );
    let error: ServiceError | undefined;
    let last: StatusObject | undefined;
    let read = false;
    let over = false;
    const end = (trailers: Metadata) => {
      if (over) return;
      over = true;
      listener.ended({ error, trailers });
    };
    call.on("data", (bytes: Buffer) => {
      if (!over) listener.message(bytes, 0, bytes.length);
    });
    call.on("error", (found: ServiceError) => {
      error ??= found;
    });
    call.on("status", (found: StatusObject) => {
      last = found;
      if (found.code !== status.OK || read) end(found.metadata);
    });
    call.on("end", () => {
      // Emitted for failed calls too, before or after their status; only a complete answer waits for it.
      read = true;
      if (last) end(last.metadata);
    });
    return {
      get connected() {
        return client.getChannel().getConnectivityState(false) === connectivityState.READY;
      },
      cancel: () => {
        call.cancel();
        // The call may be over while its last messages wait behind a paused stream: then nothing more will come.
        if (last) end(last.metadata);
      },
      pause: () => void call.pause(),
      resume: () => void call.resume(),
    };
  }

  /** Does nothing: the checks of health have connected. */
  warm(): void {}

  /** Does nothing: the channel is the endpoint's. */
  close(): void {}
}
