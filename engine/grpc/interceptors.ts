import type { Http2Session } from "node:http2";
import {
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerMethodDefinition,
  status,
} from "@grpc/grpc-js";
import { streamOf } from "../../deploy/runtime/grpc/grpc-server.ts";
import type { FailedCall } from "../../deploy/runtime/grpc/status-details.ts";
import { type EndingStatus, saysUnreadable } from "../../deploy/runtime/grpc/status-details.ts";
import { isLoopback } from "../../deploy/runtime/net/loopback.ts";
import { HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import { NodeServiceService } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { OpenRcaServiceService } from "../../proto/gen/xds/service/orca/v3/orca.ts";
import { EngineError, type ErrorReason, toFailedCall } from "../errors.ts";

type Call = ServerInterceptingCallInterface;
type Method = ServerMethodDefinition<unknown, unknown>;
type Certificate = NonNullable<ReturnType<Call["getAuthContext"]>["sslPeerCertificate"]>;

/** Ends a call with an error: grpc-js starts no call that has its status, and discards the rest of its request. */
function refuse(call: Call, error: EngineError, retryAfterMs?: number): void {
  call.sendStatus(toFailedCall(error, retryAfterMs));
}

export function onlyCallersNamed(allowed: readonly string[]): ServerInterceptor {
  return (_method: Method, call: Call) => {
    const { sslPeerCertificate } = call.getAuthContext();
    if (!sslPeerCertificate || !callerNames(sslPeerCertificate).some((name) => allowed.includes(name)))
      refuse(call, new EngineError("CALLER_NOT_ALLOWED", "This caller is not allowed here."));
    return call as ServerInterceptingCall;
  };
}

/** Refuses DrainNode from remote callers without a client certificate: a drain cannot be undone. */
export const drainedByTrusted: ServerInterceptor = ({ path }: Method, call: Call) => {
  const isDrain = path === NodeServiceService.drainNode.path;
  if (isDrain && !call.getAuthContext().sslPeerCertificate && !isLoopback(call.getPeer().replace(/:\d+$/, "")))
    refuse(call, new EngineError("CALLER_NOT_ALLOWED", "Draining takes a client certificate, or the node's machine."));
  return call as ServerInterceptingCall;
};

const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/**
 * Returns the common names of a client certificate, and its alternative names of types DNS and URI (used by SPIFFE).
 * Names that Node had to quote, because they contain separators, are ignored.
 */
export function callerNames({
  subject,
  subjectaltname = "",
}: Pick<Certificate, "subject" | "subjectaltname">): string[] {
  const common: string | readonly string[] = subject?.CN ?? [];
  const entries = subjectaltname.replace(QUOTED, "").split(", ");
  const alternative = entries.flatMap((entry) => /^(?:DNS|URI):([^"]+)$/.exec(entry)?.[1] ?? []);
  return [...(typeof common === "string" ? [common] : common), ...alternative];
}

export type ConnectionLimits = {
  /** The most concurrent calls, announced as an HTTP/2 setting: the client queues further ones. */
  readonly maxCalls: number;
  /** The most bytes of requests of open calls, complete or not. */
  readonly maxRequestBytes: number;
  /** The most streams per watch method: health watches, and load reports. */
  readonly maxWatches: number;
};

/** A gateway may send all that runs and waits over one connection, with one stream of health and load per model. */
export const CONNECTION_LIMITS: ConnectionLimits = {
  maxCalls: 16_384,
  maxRequestBytes: 1_073_741_824,
  maxWatches: 256,
};

type ExceededLimit = "request_bytes" | "watches";

const WATCHES: ReadonlySet<string> = new Set([HealthService.watch.path, OpenRcaServiceService.streamCoreMetrics.path]);
/** The delay that RetryInfo gives to a caller over its limits, in milliseconds. */
const RETRY_AFTER_MS = 1_000;

type Open = { requestBytes: number; readonly watches: Map<string, number> };

/**
 * Returns an interceptor that refuses calls beyond the limits of their connection with QUEUE_FULL, so that no caller
 * exhausts the node's memory. HTTP/2 bounds the number of calls: see `grpc.max_concurrent_streams`.
 */
export function withinLimits(
  { maxRequestBytes, maxWatches }: ConnectionLimits,
  onRefused: (limit: ExceededLimit) => void,
): ServerInterceptor {
  const connections = new WeakMap<Http2Session, Open>();
  return ({ path }: Method, call: Call) => {
    const intercepted = call as ServerInterceptingCall;
    const stream = streamOf(call);
    if (!stream?.session) return intercepted;
    const open = connections.get(stream.session) ?? { requestBytes: 0, watches: new Map() };
    connections.set(stream.session, open);
    const exceeded = (limit: ExceededLimit) => {
      onRefused(limit);
      refuse(call, new EngineError("QUEUE_FULL", "This connection has too much open."), RETRY_AFTER_MS);
    };
    if (WATCHES.has(path)) {
      const watches = open.watches.get(path) ?? 0;
      if (watches >= maxWatches) {
        exceeded("watches");
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
      exceeded("request_bytes");
    };
    stream.on("data", count);
    stream.once("close", release);
    return intercepted;
  };
}

/** The statuses that grpc-js and its companion packages raise on their own, with the reason and text sent for each. */
const RAISED: Readonly<Partial<Record<status, readonly [reason: ErrorReason, message: string]>>> = {
  [status.CANCELLED]: ["CANCELLED", "The caller has left."],
  [status.DEADLINE_EXCEEDED]: ["DEADLINE", "The deadline has passed."],
  [status.NOT_FOUND]: ["MODEL_NOT_SERVED", "The node serves nothing of this name."],
  [status.RESOURCE_EXHAUSTED]: ["MESSAGE_TOO_LARGE", "The message is larger than the node takes."],
  [status.UNIMPLEMENTED]: ["UNIMPLEMENTED", "The node does not know this method, or not this way of calling it."],
};

export function explained(ended: EndingStatus): FailedCall {
  if (saysUnreadable(ended)) return toFailedCall(new EngineError("INVALID_REQUEST", "The request cannot be read."));
  const [reason, message] = RAISED[ended.code ?? status.UNKNOWN] ?? [
    "ENGINE_ERROR",
    "The node had an error of its own.",
  ];
  return toFailedCall(new EngineError(reason, message));
}

export const UNKNOWN_METHOD = explained({ code: status.UNIMPLEMENTED, details: "" });
