import type { Http2Session } from "node:http2";
import type {
  ServerInterceptingCall,
  ServerInterceptingCallInterface,
  ServerInterceptor,
  ServerMethodDefinition,
} from "@grpc/grpc-js";
import { streamOf } from "../../deploy/runtime/grpc/grpc-server.ts";
import { HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import { OpenRcaServiceService } from "../../proto/gen/xds/service/orca/v3/orca.ts";
import { EngineError, toFailedCall } from "../errors.ts";

export type ConnectionLimits = {
  /** The most concurrent calls, announced as an HTTP/2 setting: the client queues further ones. */
  readonly maxCalls: number;
  /** The most bytes of requests of open calls, complete or not. */
  readonly maxRequestBytes: number;
  /** The most streams per watch method: health watches, and load reports. */
  readonly maxWatches: number;
};

/**
 * The bounds of each connection. A gateway may send all that runs and waits over one connection, with 64 MiB a request
 * at most; it has one stream of health and one of load reports per model.
 */
export const CONNECTION_LIMITS: ConnectionLimits = {
  maxCalls: 16_384,
  maxRequestBytes: 1_073_741_824,
  maxWatches: 256,
};

/** The limit that a refused call exceeded, as a metric label. */
export type ExceededLimit = "request_bytes" | "watches";

/** Streams that stay open until their callers end them. */
const WATCHES: ReadonlySet<string> = new Set([HealthService.watch.path, OpenRcaServiceService.streamCoreMetrics.path]);
/** The delay that RetryInfo gives to a caller over its limits, in milliseconds. */
const RETRY_AFTER_MS = 1_000;

type Open = { requestBytes: number; readonly watches: Map<string, number> };

/**
 * Returns an interceptor that refuses calls beyond the limits of their connection with QUEUE_FULL, so that no caller
 * exhausts the node's memory. `onRefused` receives the exceeded limit. HTTP/2 bounds the number of calls: see
 * `grpc.max_concurrent_streams`.
 */
export function withinLimits(
  { maxRequestBytes, maxWatches }: ConnectionLimits,
  onRefused: (limit: ExceededLimit) => void,
): ServerInterceptor {
  const connections = new WeakMap<Http2Session, Open>();
  return ({ path }: ServerMethodDefinition<unknown, unknown>, call: ServerInterceptingCallInterface) => {
    const intercepted = call as ServerInterceptingCall;
    const stream = streamOf(call);
    if (!stream?.session) return intercepted;
    const open = connections.get(stream.session) ?? { requestBytes: 0, watches: new Map() };
    connections.set(stream.session, open);
    const refuse = (limit: ExceededLimit) => {
      onRefused(limit);
      const error = new EngineError("QUEUE_FULL", "This connection has too much open.");
      // grpc-js starts no call that has its status, and discards the rest of its request.
      call.sendStatus(toFailedCall(error, RETRY_AFTER_MS));
    };
    if (WATCHES.has(path)) {
      const watches = open.watches.get(path) ?? 0;
      if (watches >= maxWatches) {
        refuse("watches");
        return intercepted;
      }
      open.watches.set(path, watches + 1);
      stream.once("close", () => open.watches.set(path, (open.watches.get(path) ?? 1) - 1));
    }
    let bytes = 0;
    const release = () => {
      open.requestBytes -= bytes;
      bytes = 0;
      stream.off("data", count);
    };
    const count = (data: Buffer) => {
      bytes += data.length;
      open.requestBytes += data.length;
      if (open.requestBytes <= maxRequestBytes) return;
      release();
      refuse("request_bytes");
    };
    stream.on("data", count);
    stream.once("close", release);
    return intercepted;
  };
}
