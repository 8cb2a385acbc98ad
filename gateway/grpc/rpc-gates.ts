import type { IncomingHttpHeaders } from "node:http2";
import {
  type Metadata,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from "@grpc/grpc-js";
import { streamOf } from "../../deploy/runtime/grpc/call-stream.ts";
import { isDetailed } from "../../deploy/runtime/grpc/status-details.ts";
import { HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import { ApiError, toApiError } from "../errors.ts";
import { type AuthDeps, authenticate } from "../http/access/auth.ts";
import { refuseInTrouble } from "../http/access/overload.ts";
import { admitRequest, type RateLimitDeps } from "../http/access/rate-limit.ts";
import { bodyTooLarge } from "../http/access/request-hygiene.ts";
import { type BodyLimits, beginBody, maxBytesOf, noRoom } from "../http/body/request-body.ts";
import { type RecordSinks, writeDown } from "../http/record/access-log.ts";
import { clientAddress } from "../http/record/client-address.ts";
import { RequestRecord } from "../http/record/request-record.ts";
import { traceContextOf } from "../http/record/trace-context.ts";
import type { Use } from "../limits/limiter.ts";
import { rateLimitHeaders } from "../limits/rate-limit-headers.ts";
import { RPCS } from "../routes.ts";
import { failedRpc, raisedError } from "./failed-rpc.ts";
import { RpcCall } from "./rpc-call.ts";
import type { WastedCalls } from "./wasted-calls.ts";

/** The parts that a call has to pass before its method is reached: those of the public API. */
export type RpcGates = {
  /** Finds the owners of keys. */
  readonly auth: AuthDeps;
  /** Holds calls against the limits of their keys. */
  readonly limits: RateLimitDeps;
  /** Turns calls away that the process has no room for. */
  readonly bodies: BodyLimits;
  /** The places at which calls that are over are written down. */
  readonly sinks: RecordSinks;
};

/** What is known of a method before it is called. */
type Method = { readonly path: string; readonly operation: string; readonly use: Use };

const REFLECTION = ["grpc.reflection.v1", "grpc.reflection.v1alpha"].map(
  (version): Method => ({
    path: `/${version}.ServerReflection/ServerReflectionInfo`,
    operation: "rpc_reflection",
    use: "none",
  }),
);

/** The methods that take a key. */
const METHODS: ReadonlyMap<string, Method> = new Map(
  [...Object.values(RPCS), ...REFLECTION].map((method) => [method.path, method]),
);

/** The methods that take none and leave no line in the log: those of health. */
const OPEN: ReadonlySet<string> = new Set(Object.values(HealthService).map(({ path }) => path));

/**
 * Lets calls pass what requests of the public API pass, in the same order, before a byte of their message is read: key,
 * limits, overload, room for the message. It gives every call its record, and has it written down at its end.
 */
export class RpcGatekeeper {
  readonly #gates: RpcGates;
  readonly #wasted: Pick<WastedCalls, "hasKey">;
  readonly #calls = new WeakMap<Metadata, RpcCall>();
  readonly #open = new Set<RpcCall>();
  #whenIdle: (() => void)[] = [];

  constructor(gates: RpcGates, wasted: Pick<WastedCalls, "hasKey">) {
    this.#gates = gates;
    this.#wasted = wasted;
  }

  /** The interceptor that every call of the server goes through. */
  get interceptor(): ServerInterceptor {
    return ({ path }, call) => {
      if (!OPEN.has(path)) this.#follow(path, call);
      // An object around the call would make closures for each message; grpc-js needs the interface only.
      return call as ServerInterceptingCall;
    };
  }

  /** Returns the call that came with this metadata. Throws for one that never passed, which is a fault of ours. */
  callOf(metadata: Metadata): RpcCall {
    const call = this.#calls.get(metadata);
    if (!call) throw new Error("a call reached its method past its gates");
    return call;
  }

  /** Resolves when no call is open but those of health. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  /** Begins the record of a call, and stands in the way of its message. */
  #follow(path: string, call: ServerInterceptingCallInterface): void {
    const stream = streamOf(call);
    const send = call.sendStatus.bind(call);
    if (!stream) {
      // What cannot be followed must not get past the gates.
      send({ code: status.INTERNAL, details: "" });
      return;
    }
    const method = METHODS.get(path);
    // Until the metadata is there, nobody can have called anything of it.
    let rpc: RpcCall | undefined;
    const remote = stream.session?.socket.remoteAddress;
    const start = call.start.bind(call);
    call.start = (listener) =>
      start({
        onReceiveMetadata: (metadata) => {
          const begun = this.#begin(method, metadata, { call, stream, remote });
          rpc = begun;
          void this.#pass(method, begun, metadata).then(
            () => {
              if (begun.destroyed) return;
              this.#calls.set(metadata, begun);
              if (begun.body) countMessage(begun, stream, this.#gates.bodies);
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
      // A deadline is the caller's own, who leaves by it.
      rpc?.ends(failed, ended.code === status.DEADLINE_EXCEEDED);
      send(failed);
    };
  }

  #begin(
    method: Method | undefined,
    metadata: Metadata,
    {
      call,
      stream,
      remote,
    }: {
      readonly call: ServerInterceptingCallInterface;
      readonly stream: NonNullable<ReturnType<typeof streamOf>>;
      readonly remote: string | undefined;
    },
  ): RpcCall {
    const { sinks, auth } = this.#gates;
    const { clock, tracing } = sinks;
    const headers = headersOf(metadata);
    const forwarded = headers["x-forwarded-for"];
    const address = clientAddress(remote, forwarded === undefined ? undefined : String(forwarded), auth.trustedHops);
    const record = new RequestRecord({
      labels: method
        ? { route: method.path, format: "grpc", operation: method.operation }
        : { route: "unknown", format: "grpc", operation: "none" },
      trace: traceContextOf({}),
      callerTrace: () => traceContextOf(headers, tracing && ((traceId) => tracing.headSampler(traceId))),
      clock,
      traced: tracing !== undefined,
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

  /** Lets a call pass, or throws `ApiError`. */
  async #pass(method: Method | undefined, rpc: RpcCall, metadata: Metadata): Promise<void> {
    const { auth, limits, bodies } = this.#gates;
    if (!method) throw unknownMethod();
    const { record, address } = rpc;
    const onTooMany = () => rpc.endConnection();
    const principal = await authenticate({ record, rawHeaders: rawHeadersOf(metadata), address, onTooMany }, auth);
    if (rpc.session) this.#wasted.hasKey(rpc.session, principal.keyId);
    const { use } = method;
    refuseInTrouble(bodies.overload, bodies.random);
    const show: NonNullable<RpcCall["limited"]>["show"] = ({ readings }) =>
      rpc.tell(rateLimitHeaders("a", readings, { prefix: limits.headerPrefix, wallMs: limits.clock.wallMs() }));
    rpc.limited = { record, principal, use, reply: rpc, show };
    await admitRequest(rpc.limited, limits);
    if (use === "none") return;
    const announced = announcedBytes(metadata);
    const maxBytes = maxBytesOf(record, bodies);
    if (announced > maxBytes) throw bodyTooLarge(maxBytes);
    rpc.body = beginBody(announced, principal, rpc, bodies);
    const lack = await rpc.body.reserve(announced);
    if (lack) throw noRoom(lack, bodies.random);
  }
}

/** Counts the message of a call as it comes, and ends the call where there is no room for it. */
function countMessage(
  rpc: RpcCall,
  stream: NonNullable<ReturnType<typeof streamOf>>,
  bodies: Pick<BodyLimits, "maxBodyBytes" | "random">,
): void {
  const maxBytes = maxBytesOf(rpc.record, bodies);
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    const lack = rpc.body?.add(chunk.length);
    // Beside the message there are the five bytes that say how long it is.
    if (!lack && bytes <= maxBytes + 5) return;
    stream.off("data", count);
    rpc.refuse(lack ? noRoom(lack, bodies.random) : bodyTooLarge(maxBytes));
  };
  stream.on("data", count);
}

/** Returns how long the message is that a call announces, in bytes; 0 where it does not say, as most do not. */
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

function unknownMethod(): ApiError {
  return new ApiError("unknown_url", "This service does not know this method, or not this way of calling it.");
}
