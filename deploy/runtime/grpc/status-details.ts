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

/** A status that a call is about to end with. */
export type EndingStatus = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/** Matches what grpc-js says, with INTERNAL, about a request that it cannot read. */
const UNREADABLE = /^(?:Error deserializing request|Failed to decompress message|Invalid grpc-timeout value)/;

/** Returns whether grpc-js says with this status that it cannot read the request. */
export function saysUnreadable({ code, details }: EndingStatus): boolean {
  return code === status.INTERNAL && UNREADABLE.test(details ?? "");
}

/**
 * Makes the interceptor of a server that gives `google.rpc.ErrorInfo`, and a text that repeats nothing of the caller's,
 * to every status that is not OK and has no details: `explain` makes the one that goes out in its place. It costs one
 * closure per call and nothing per message.
 */
export function withStatusDetails(explain: (ended: EndingStatus) => FailedCall): ServerInterceptor {
  return (_method, call) => {
    // What grpc-js finds fault with by itself is sent below all interceptors: only the call's own method sees it.
    const send = call.sendStatus.bind(call);
    call.sendStatus = (ended) => send(isDetailed(ended) ? ended : explain(ended));
    // An object around the call would make closures for each message; grpc-js needs the interface only.
    return call as ServerInterceptingCall;
  };
}

/** Makes calls of methods that the server does not have end with `failed`. Every other method keeps its handler. */
export function answerUnknownMethods(server: Server, failed: FailedCall): void {
  const pass = (bytes: Buffer) => bytes;
  const unknown = {
    // The one kind that answers without waiting for a message.
    type: "clientStream",
    path: "",
    serialize: pass,
    deserialize: pass,
    func: (_call: ServerReadableStream<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => reply(failed),
  };
  // grpc-js has no public place for a handler of any path. Without this one such calls end as grpc-js ends them.
  const find: unknown = Reflect.get(server, "_retrieveHandler");
  if (typeof find !== "function") return;
  Reflect.set(server, "_retrieveHandler", (path: string) => find.call(server, path) ?? unknown);
}

/** Returns whether a status is OK, or has details: grpc-js raises none that is and none that has. */
export function isDetailed({ code, metadata }: EndingStatus): boolean {
  return code === status.OK || (metadata?.get(DETAILS_KEY).length ?? 0) > 0;
}
