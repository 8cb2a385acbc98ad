import type { Http2Session } from "node:http2";
import type { ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";
import { streamOf } from "./call-stream.ts";

/** Flow-control window of a connection, all its calls together; a single call has 64 KiB. */
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Returns an interceptor that widens the flow-control window of each connection at its first call. By default a
 * connection's window equals that of a stream, and grpc-js servers have no setting for it: one large upload uses all of
 * it, and since Node 24 other streams are blocked until it is complete.
 */
export function wideConnections(): ServerInterceptor {
  const wide = new WeakSet<Http2Session>();
  return (_method, call) => {
    const session = streamOf(call)?.session;
    if (session && !session.destroyed && !wide.has(session)) {
      wide.add(session);
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    }
    return call as ServerInterceptingCall;
  };
}
