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

export function metadataOf(headers: CallHeaders): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

/** Sends Generate calls over the endpoint's grpc-js channel, which all other calls use, too. */
export class GrpcJsWire implements GenerateWire {
  readonly #client: () => Client;

  /** `client` is called at each use. */
  constructor(client: () => Client) {
    this.#client = client;
  }

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
        // The call may have ended while its last messages wait behind a paused stream: then no further event follows.
        if (last) end(last.metadata);
      },
      pause: () => void call.pause(),
      resume: () => void call.resume(),
    };
  }

  /** Does nothing: the health checks have connected. */
  warm(): void {}

  close(): void {}
}
