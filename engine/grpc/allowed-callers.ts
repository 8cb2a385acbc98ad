import type {
  ServerInterceptingCall,
  ServerInterceptingCallInterface,
  ServerInterceptor,
  ServerMethodDefinition,
} from "@grpc/grpc-js";
import { isLoopback } from "../../deploy/runtime/net/loopback.ts";
import { NodeServiceService } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { EngineError, toFailedCall } from "../errors.ts";

type Certificate = NonNullable<ReturnType<ServerInterceptingCallInterface["getAuthContext"]>["sslPeerCertificate"]>;

/**
 * Returns an interceptor that refuses, on every service of the node, callers whose certificate carries none of the
 * `allowed` names. `callerNames` defines the names of a certificate.
 */
export function onlyCallersNamed(allowed: readonly string[]): ServerInterceptor {
  return (_method: ServerMethodDefinition<unknown, unknown>, call: ServerInterceptingCallInterface) => {
    const { sslPeerCertificate } = call.getAuthContext();
    if (!sslPeerCertificate || !callerNames(sslPeerCertificate).some((name) => allowed.includes(name)))
      // grpc-js starts no call that has its status.
      call.sendStatus(toFailedCall(new EngineError("CALLER_NOT_ALLOWED", "This caller is not allowed here.")));
    return call as ServerInterceptingCall;
  };
}

/**
 * Refuses DrainNode from remote callers without a client certificate, which TLS has verified by then. A drain cannot be
 * undone, and a node that checks no callers accepts it from any host.
 */
export const drainedByTrusted: ServerInterceptor = (
  method: ServerMethodDefinition<unknown, unknown>,
  call: ServerInterceptingCallInterface,
) => {
  const isDrain = method.path === NodeServiceService.drainNode.path;
  if (isDrain && !call.getAuthContext().sslPeerCertificate && !isLoopback(call.getPeer().replace(/:\d+$/, "")))
    call.sendStatus(
      toFailedCall(
        new EngineError("CALLER_NOT_ALLOWED", "Draining takes a client certificate, or the node's machine."),
      ),
    );
  return call as ServerInterceptingCall;
};

/** Matches a name that Node has quoted, as JSON. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/**
 * Returns the names of a client certificate: common names, and subject alternative names of types DNS and URI (used by
 * SPIFFE). Names that Node had to quote, because they contain separators, are ignored.
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
