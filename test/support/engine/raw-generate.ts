import { type ClientHttp2Stream, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { GenerateRequest as Requests } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

export type RawCall = {
  readonly stream: ClientHttp2Stream;
  /** Resolves to the headers with the call's status: the trailers, or the headers of a trailers-only reply. */
  readonly status: Promise<IncomingHttpHeaders>;
  stop(): void;
};

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

export function framed(message: Uint8Array, compressed = false): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed ? 1 : 0);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Makes a Generate call with a window of 64 KiB and no enforced deadline. `timeout` is in gRPC's notation (`50m`). */
export function rawGenerate(address: string, request: GenerateRequest, timeout?: string): RawCall {
  const headers = timeout === undefined ? {} : { "grpc-timeout": timeout };
  const path = "/svc.inference.v1.InferenceService/Generate";
  return rawCall(address, path, headers, framed(Requests.encode(request).finish()));
}
