import { type ClientHttp2Stream, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { GenerateRequest as Requests } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** A gRPC call on bare HTTP/2 that is under way. */
export type RawCall = {
  /** The HTTP/2 stream of the call. */
  readonly stream: ClientHttp2Stream;
  /**
   * Resolves to the headers in which the status of the call stands: the trailers, or the headers of a reply that has
   * nothing else.
   */
  readonly status: Promise<IncomingHttpHeaders>;
  /** Breaks the connection. */
  stop(): void;
};

/** Makes a gRPC call on bare HTTP/2, with any headers and any bytes. */
export function rawCall(address: string, path: string, headers: OutgoingHttpHeaders, body: Uint8Array): RawCall {
  const session = connect(`http://${address}`);
  session.on("error", () => {});
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  stream.on("error", () => {});
  const status = new Promise<IncomingHttpHeaders>((resolve) => {
    const look = (found: IncomingHttpHeaders) => {
      if (found["grpc-status"] !== undefined) resolve(found);
    };
    stream.on("response", look);
    stream.on("trailers", look);
  });
  stream.end(body);
  return { stream, status, stop: () => session.destroy() };
}

/** Returns a message behind its length, as gRPC has it. */
export function framed(message: Uint8Array, compressed = false): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed ? 1 : 0);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/**
 * Makes a call of Generate on bare HTTP/2: that of a caller which enforces no deadline of its own, takes 64 KiB at most
 * before it reads, and may not read at all. `timeout` is in gRPC's notation (`50m`, `1S`).
 */
export function rawGenerate(address: string, request: GenerateRequest, timeout?: string): RawCall {
  const headers = timeout === undefined ? {} : { "grpc-timeout": timeout };
  const path = "/svc.inference.v1.InferenceService/Generate";
  return rawCall(address, path, headers, framed(Requests.encode(request).finish()));
}
