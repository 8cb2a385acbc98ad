import type { IncomingHttpHeaders } from "node:http2";
import {
  type Metadata,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from "@grpc/grpc-js";
import { streamOf } from "../../deploy/runtime/grpc/grpc-server.ts";
import { isDetailed } from "../../deploy/runtime/grpc/status-details.ts";
import { HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import { ApiError, toApiError } from "../errors.ts";
import { type AuthDeps, authenticate } from "../http/access/auth.ts";
import { admitRequest, type RateLimitDeps } from "../http/access/rate-limit.ts";
import { bodyTooLarge } from "../http/access/request-head.ts";
import { type BodyLimits, beginBody, budgetExceeded, maxBytesOf, refuseInTrouble } from "../http/body/request-body.ts";
import { type RecordSinks, writeDown } from "../http/record/access-log.ts";
import { clientAddress } from "../http/record/client-address.ts";
import { RequestRecord } from "../http/record/request-record.ts";
import { traceContextOf } from "../http/record/trace-context.ts";
import type { Use } from "../limits/limiter.ts";
import { rateLimitHeaders } from "../limits/rate-limit-headers.ts";
import { RPCS } from "../routes.ts";
import { failedRpc, RpcCall, raisedError } from "./rpc-call.ts";

export type InterceptorParts = {
  readonly auth: AuthDeps;
  readonly limits: RateLimitDeps;
  /** Refuses calls for which the process has no capacity. */
  readonly bodies: BodyLimits;
  readonly sinks: RecordSinks;
};

type CallStream = NonNullable<ReturnType<typeof streamOf>>;

type Method = { readonly path: string; readonly operation: string; readonly use: Use };

/** Methods that require a key. */
const METHODS: ReadonlyMap<string, Method> = new Map(Object.values(RPCS).map((method) => [method.path, method]));

/** Tools such as buf read the contract without the key that they send with the call itself. */
const REFLECTION: ReadonlySet<string> = new Set(
  ["v1", "v1alpha"].map((version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`),
);

/** Methods without a key and without access log: health checks and reflection. */
const OPEN: ReadonlySet<string> = new Set([...Object.values(HealthService).map(({ path }) => path), ...REFLECTION]);

/** Most bytes that a call without a key may send. Each question of reflection may have a file as its answer. */
const MAX_OPEN_BYTES = 4_096;
/** Most open calls of reflection, whose unread answers are all in memory. */
const MAX_REFLECTIONS = 64;

/**
 * Applies the checks of the public API to calls, in the same order, before a byte of their message is read: key, limits,
 * overload, body budget. It makes the record of every call, and logs it at the end.
 */
export class RpcInterceptor {
  readonly #parts: InterceptorParts;
  readonly #calls = new WeakMap<Metadata, RpcCall>();
  readonly #open = new Set<RpcCall>();
  #whenIdle: (() => void)[] = [];
  #reflections = 0;

  constructor(parts: InterceptorParts) {
    this.#parts = parts;
  }

  get interceptor(): ServerInterceptor {
    return ({ path }, call) => {
      if (OPEN.has(path)) this.#bound(path, call);
      else this.#follow(path, call);
      // An object around the call would allocate closures for each message; grpc-js needs only the interface.
      return call as ServerInterceptingCall;
    };
  }

  /** Returns the call with this metadata. Throws for a call that did not pass the checks, which is a bug. */
  callOf(metadata: Metadata): RpcCall {
    const call = this.#calls.get(metadata);
    if (!call) throw new Error("a call reached its method past its checks");
    return call;
  }

  /** Resolves when no call with a key is open. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  /** Bounds what a call without a key can cost. */
  #bound(path: string, call: ServerInterceptingCallInterface): void {
    const stream = streamOf(call);
    const refuse = () => call.sendStatus(failedRpc(new ApiError("rate_limit_exceeded", "Too much without a key.")));
    const reflects = REFLECTION.has(path);
    if (!stream || (reflects && this.#reflections >= MAX_REFLECTIONS)) {
      refuse();
      return;
    }
    if (reflects) {
      this.#reflections += 1;
      stream.once("close", () => {
        this.#reflections -= 1;
      });
    }
    let bytes = 0;
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_OPEN_BYTES) return;
      stream.off("data", count);
      refuse();
    };
    stream.on("data", count);
  }

  /** Begins the record of a call, and delays its message until the call has passed the checks. */
  #follow(path: string, call: ServerInterceptingCallInterface): void {
    const stream = streamOf(call);
    const send = call.sendStatus.bind(call);
    if (!stream) {
      // A call without a record must not pass the checks.
      send({ code: status.INTERNAL, details: "" });
      return;
    }
    const method = METHODS.get(path);
    // Undefined until the metadata has arrived; no method runs before.
    let rpc: RpcCall | undefined;
    const remote = stream.session?.socket.remoteAddress;
    const start = call.start.bind(call);
    call.start = (listener) =>
      start({
        onReceiveMetadata: (metadata) => {
          const begun = this.#begin(method, metadata, call, stream, remote);
          rpc = begun;
          void this.#pass(method, begun, metadata).then(
            () => {
              if (begun.destroyed) return;
              this.#calls.set(metadata, begun);
              if (begun.body) countMessage(begun, stream, this.#parts.bodies);
              listener.onReceiveMetadata(metadata);
            },
            (error: unknown) => begun.refuse(toApiError(error)),
          );
        },
        onReceiveMessage: (message) => listener.onReceiveMessage(message),
        onReceiveHalfClose: () => listener.onReceiveHalfClose(),
        onCancel: () => listener.onCancel(),
      });
    call.sendStatus = (ended) => {
      if (isDetailed(ended)) {
        rpc?.ends(ended, false);
        send(ended);
        return;
      }
      const error = raisedError(ended);
      const failed = rpc?.failure(error) ?? failedRpc(error);
      // The caller set the deadline: the call ends as a cancelled one.
      rpc?.ends(failed, ended.code === status.DEADLINE_EXCEEDED);
      send(failed);
    };
  }

  #begin(
    method: Method | undefined,
    metadata: Metadata,
    call: ServerInterceptingCallInterface,
    stream: CallStream,
    remote: string | undefined,
  ): RpcCall {
    const { sinks } = this.#parts;
    const { clock, tracing } = sinks;
    const headers = headersOf(metadata);
    const address = clientAddress(remote, headers["x-forwarded-for"], sinks.trustedHops);
    const record = new RequestRecord({
      labels: method
        ? { route: method.path, format: "grpc", operation: method.operation }
        : { route: "unknown", format: "grpc", operation: "none" },
      trace: traceContextOf({}),
      ...{ headers, tracing, clock },
    });
    const rpc = new RpcCall({ record, headers, address }, call, stream);
    this.#open.add(rpc);
    stream.once("close", () => {
      this.#open.delete(rpc);
      const closed = record.closed(rpc.headersSent ? rpc.statusCode : 0, rpc.writableFinished);
      const { grpcStatus, bytesOut } = rpc;
      writeDown(closed, { method: "POST", grpcStatus, address, headers, bytesOut }, sinks);
      if (this.#open.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    });
    return rpc;
  }

  /** Returns if the call passes the checks, else throws `ApiError`. */
  async #pass(method: Method | undefined, rpc: RpcCall, metadata: Metadata): Promise<void> {
    const { auth, limits, bodies } = this.#parts;
    if (!method) throw raisedError({ code: status.UNIMPLEMENTED, details: "" });
    const { record, address } = rpc;
    const onTooMany = () => rpc.endConnection();
    const principal = await authenticate({ record, rawHeaders: rawHeadersOf(metadata), address, onTooMany }, auth);
    const { use } = method;
    refuseInTrouble(bodies.overload, bodies.random);
    const show: NonNullable<RpcCall["limited"]>["show"] = ({ readings }) =>
      rpc.addMetadata(rateLimitHeaders("a", readings, limits.clock.wallMs()));
    rpc.limited = { record, principal, use, reply: rpc, show };
    await admitRequest(rpc.limited, limits);
    if (use === "none") return;
    const announced = announcedBytes(metadata);
    const maxBytes = maxBytesOf(record, bodies);
    if (announced > maxBytes) throw bodyTooLarge(maxBytes);
    rpc.body = beginBody(announced, principal, rpc, bodies);
    const lack = await rpc.body.reserve(announced);
    if (lack) throw budgetExceeded(lack, bodies.random);
  }
}

/** Counts the bytes of a message as they arrive, and ends the call if they exceed the budget. */
function countMessage(rpc: RpcCall, stream: CallStream, bodies: Pick<BodyLimits, "maxBodyBytes" | "random">): void {
  const maxBytes = maxBytesOf(rpc.record, bodies);
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    const lack = rpc.body?.add(chunk.length);
    // Five bytes of gRPC framing precede the message.
    if (!lack && bytes <= maxBytes + 5) return;
    stream.off("data", count);
    rpc.refuse(lack ? budgetExceeded(lack, bodies.random) : bodyTooLarge(maxBytes));
  };
  stream.on("data", count);
}

/** Returns the announced length of a message, in bytes; 0 if it is absent, as in most calls. */
function announcedBytes(metadata: Metadata): number {
  const length = Number(metadata.get("content-length")[0] ?? 0);
  return Number.isSafeInteger(length) && length > 0 ? length : 0;
}

function headersOf(metadata: Metadata): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(metadata.getMap()).map(([name, value]) => [name, String(value)]));
}

function rawHeadersOf(metadata: Metadata): readonly string[] {
  return ["authorization", "x-api-key"].flatMap((name) => metadata.get(name).flatMap((value) => [name, String(value)]));
}
