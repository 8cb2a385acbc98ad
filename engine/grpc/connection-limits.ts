import type { Http2Session } from "node:http2";
import type {
  ServerInterceptingCall,
  ServerInterceptingCallInterface,
  ServerInterceptor,
  ServerMethodDefinition,
} from "@grpc/grpc-js";
import { streamOf } from "../../deploy/runtime/grpc/call-stream.ts";
import { HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import { OpenRcaServiceService } from "../../proto/gen/xds/service/orca/v3/orca.ts";
import { EngineError, toFailedCall } from "../errors.ts";

/** The bounds of what one connection to the gRPC port may have open. */
export type ConnectionLimits = {
  /** The most calls at once. HTTP/2 tells the caller, who then waits with further ones. */
  readonly maxCalls: number;
  /** The most bytes of requests, those that have not come whole and those of calls that are not over. */
  readonly maxRequestBytes: number;
  /** The most streams of health, and as many again of load reports. */
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

/** A limit that a call was refused for, as metrics name it. */
export type ExceededLimit = "request_bytes" | "watches";

/** The streams that last as long as their callers like. */
const WATCHES: ReadonlySet<string> = new Set([HealthService.watch.path, OpenRcaServiceService.streamCoreMetrics.path]);
/** The time after which a caller that has too much open may come again, in milliseconds. */
const RETRY_AFTER_MS = 1_000;

/** What one connection has open. */
type Open = { requestBytes: number; readonly watches: Map<string, number> };

/**
 * Returns an interceptor that refuses calls, with QUEUE_FULL, by which a connection would have more open than it may:
 * so no caller fills the memory of the node, and others are served. `onRefused` is told which limit it was. How many
 * calls a connection has at once is for HTTP/2 to bound: see `grpc.max_concurrent_streams`.
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
      // A call that has its status is never started, and what still comes of it is thrown away.
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
