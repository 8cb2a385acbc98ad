import {
  type Server,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerMethodDefinition,
  type ServerReadableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { DETAILS_KEY, EngineError, type ErrorReason, toFailedCall } from "../errors.ts";

type Status = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/**
 * The statuses that grpc-js and its companions raise by themselves, with the reason and the text that callers get for
 * each.
 */
const RAISED: Readonly<Partial<Record<status, readonly [reason: ErrorReason, message: string]>>> = {
  [status.CANCELLED]: ["CANCELLED", "The caller has left."],
  [status.DEADLINE_EXCEEDED]: ["DEADLINE", "The deadline has passed."],
  [status.NOT_FOUND]: ["MODEL_NOT_SERVED", "The node serves nothing of this name."],
  [status.RESOURCE_EXHAUSTED]: ["MESSAGE_TOO_LARGE", "The message is larger than the node takes."],
  [status.UNIMPLEMENTED]: ["UNIMPLEMENTED", "The node does not know this method, or not this way of calling it."],
};

/** Matches what grpc-js says, with INTERNAL, about a request that it cannot read. */
const UNREADABLE = /^(?:Error deserializing request|Failed to decompress message|Invalid grpc-timeout value)/;

/**
 * An interceptor of the server that gives `google.rpc.ErrorInfo`, and a text that repeats nothing of the caller's, to
 * every status that is not OK and has no details. It costs one closure per call and nothing per message.
 */
export function withStatusDetails(
  _method: ServerMethodDefinition<unknown, unknown>,
  call: ServerInterceptingCallInterface,
): ServerInterceptingCall {
  // What grpc-js finds fault with by itself is sent below all interceptors: only the call's own method sees it.
  const send = call.sendStatus.bind(call);
  call.sendStatus = (ended) => send(isDetailed(ended) ? ended : toFailedCall(explained(ended)));
  // An object around the call would make closures for each message; grpc-js needs the interface only.
  return call as ServerInterceptingCall;
}

/** Makes calls of methods that the server does not have end with details too. Every other method keeps its handler. */
export function answerUnknownMethods(server: Server): void {
  const { reason, message } = explained({ code: status.UNIMPLEMENTED, details: "" });
  const pass = (bytes: Buffer) => bytes;
  const unknown = {
    // The one kind that answers without waiting for a message.
    type: "clientStream",
    path: "",
    serialize: pass,
    deserialize: pass,
    func: (_call: ServerReadableStream<Buffer, Buffer>, reply: sendUnaryData<Buffer>) =>
      reply(toFailedCall(new EngineError(reason, message))),
  };
  // grpc-js has no public place for a handler of any path. Without this one such calls end as grpc-js ends them.
  const find: unknown = Reflect.get(server, "_retrieveHandler");
  if (typeof find !== "function") return;
  Reflect.set(server, "_retrieveHandler", (path: string) => find.call(server, path) ?? unknown);
}

function isDetailed({ code, metadata }: Status): boolean {
  return code === status.OK || (metadata?.get(DETAILS_KEY).length ?? 0) > 0;
}

function explained({ code, details }: Status): EngineError {
  if (code === status.INTERNAL && UNREADABLE.test(details ?? ""))
    return new EngineError("INVALID_REQUEST", "The request cannot be read.");
  const [reason, message] = RAISED[code ?? status.UNKNOWN] ?? ["ENGINE_ERROR", "The node had an error of its own."];
  return new EngineError(reason, message);
}
