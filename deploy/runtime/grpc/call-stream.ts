import type { ServerHttp2Stream } from "node:http2";
import type { ServerInterceptingCallInterface } from "@grpc/grpc-js";

/** Returns the stream of HTTP/2 below a call, for which grpc-js has no public place; undefined where it has none. */
export function streamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  const stream: unknown = Reflect.get(call, "stream");
  return stream !== null && typeof stream === "object" && "session" in stream
    ? (stream as ServerHttp2Stream)
    : undefined;
}
