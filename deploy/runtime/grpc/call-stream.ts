import type { ServerHttp2Stream } from "node:http2";
import type { ServerInterceptingCallInterface } from "@grpc/grpc-js";

/** Returns the HTTP/2 stream of a call, for which grpc-js has no public API; undefined if there is none. */
export function streamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  const stream: unknown = Reflect.get(call, "stream");
  return stream !== null && typeof stream === "object" && "session" in stream
    ? (stream as ServerHttp2Stream)
    : undefined;
}
