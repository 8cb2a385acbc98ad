import type { Http2Session } from "node:http2";
import type { ServerInterceptingCall, ServerInterceptor } from "@grpc/grpc-js";
import { streamOf } from "./call-stream.ts";

/**
 * The bytes that callers may send ahead over a connection, all its calls together; a single call may send 64 KiB ahead.
 */
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Returns an interceptor that widens each connection at its first call. HTTP/2 lets a connection have as much under way
 * as a single stream, for which grpc-js has no setting at servers: one that sends much takes all of it, and since
 * Node 24 the streams behind it get nothing before it is through.
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
