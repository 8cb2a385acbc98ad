import {
  type Server,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerReadableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { DETAILS_KEY, type FailedCall } from "./failed-call.ts";

/** A status that is about to end a call. */
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

/** Returns whether a status is OK or has details, neither of which grpc-js raises. */
export function isDetailed({ code, metadata }: EndingStatus): boolean {
  return code === status.OK || (metadata?.get(DETAILS_KEY).length ?? 0) > 0;
}
