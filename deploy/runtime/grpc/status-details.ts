import {
  Metadata,
  type Server,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerReadableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import type { Any } from "../../../proto/gen/google/protobuf/any.ts";
import { BadRequest, ErrorInfo, RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { toDuration } from "../time/clock.ts";

export type EndingStatus = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/** The details of grpc-js's INTERNAL status for a request that cannot be decoded. */
const UNREADABLE = /^(?:Error deserializing request|Failed to decompress message|Invalid grpc-timeout value)/;

/** Returns whether this is the status of grpc-js for a request that cannot be decoded. */
export function saysUnreadable({ code, details }: EndingStatus): boolean {
  return code === status.INTERNAL && UNREADABLE.test(details ?? "");
}

/**
 * Makes a server interceptor that adds `google.rpc.ErrorInfo`, and a message without text of the caller, to every
 * status that is not OK and has no details: `explain` returns the replacement. It costs one closure per call and none
 * per message.
 */
export function withStatusDetails(explain: (ended: EndingStatus) => FailedCall): ServerInterceptor {
  return (_method, call) => {
    // grpc-js sends its own errors below all interceptors: only the call's own method sees them.
    const send = call.sendStatus.bind(call);
    call.sendStatus = (ended) => send(isDetailed(ended) ? ended : explain(ended));
    // An object around the call would allocate closures for each message; grpc-js needs only the interface.
    return call as ServerInterceptingCall;
  };
}

/** Makes calls of unknown methods end with `failed`. All other methods keep their handlers. */
export function answerUnknownMethods(server: Server, failed: FailedCall): void {
  const pass = (bytes: Buffer) => bytes;
  const unknown = {
    // The only kind of call that is answered without waiting for a message.
    type: "clientStream",
    path: "",
    serialize: pass,
    deserialize: pass,
    func: (_call: ServerReadableStream<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => reply(failed),
  };
  // grpc-js has no public API for a handler of unknown paths. Without one, such calls end with grpc-js's own status.
  const find: unknown = Reflect.get(server, "_retrieveHandler");
  if (typeof find !== "function") return;
  Reflect.set(server, "_retrieveHandler", (path: string) => find.call(server, path) ?? unknown);
}

export function isDetailed({ code, metadata }: EndingStatus): boolean {
  return code === status.OK || (metadata?.get(DETAILS_KEY).length ?? 0) > 0;
}

const DOMAIN = "svc.inference";
/** Trailer with the `google.rpc.Status` of a failed call. */
export const DETAILS_KEY = "grpc-status-details-bin";

export type FailedCall = { readonly code: status; readonly details: string; readonly metadata: Metadata };

export type FailureFacts = {
  readonly code: status;
  /** Message for people, without text of the caller. */
  readonly message: string;
  readonly reason: string;
  readonly facts: Readonly<Record<string, string>>;
  /** Retry delay in milliseconds from now, sent as `google.rpc.RetryInfo`. Default: none. */
  readonly retryAfterMs?: number | undefined;
  /** Path of the field at fault, sent as `google.rpc.BadRequest`. Default: none. */
  readonly field?: string | undefined;
};

export function failedCall({ code, message, reason, facts, retryAfterMs, field }: FailureFacts): FailedCall {
  const info: ErrorInfo = { reason, domain: DOMAIN, metadata: facts };
  const details = [packed("ErrorInfo", ErrorInfo.encode(info).finish())];
  if (retryAfterMs !== undefined) {
    const retry: RetryInfo = { retryDelay: toDuration(retryAfterMs) };
    details.push(packed("RetryInfo", RetryInfo.encode(retry).finish()));
  }
  if (field !== undefined) {
    const request: BadRequest = { fieldViolations: [{ field, description: message }] };
    details.push(packed("BadRequest", BadRequest.encode(request).finish()));
  }
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(Status.encode({ code, message, details }).finish()));
  return { code, details: message, metadata };
}

function packed(message: string, bytes: Uint8Array): Any {
  return { typeUrl: `type.googleapis.com/google.rpc.${message}`, value: Buffer.from(bytes) };
}
