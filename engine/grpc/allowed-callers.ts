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
 * `allowed` names. The names of a certificate are those of `callerNames`.
 */
export function onlyCallersNamed(allowed: readonly string[]): ServerInterceptor {
  return (_method: ServerMethodDefinition<unknown, unknown>, call: ServerInterceptingCallInterface) => {
    const { sslPeerCertificate } = call.getAuthContext();
    if (!sslPeerCertificate || !callerNames(sslPeerCertificate).some((name) => allowed.includes(name)))
      // A call that has its status is never started.
      call.sendStatus(toFailedCall(new EngineError("CALLER_NOT_ALLOWED", "This caller is not allowed here.")));
    return call as ServerInterceptingCall;
  };
}

/**
 * Refuses to take the node out of service for whoever is neither on this machine nor has shown a certificate, which TLS
 * has checked by then: a drain cannot be taken back, and a node that checks no callers is open to whoever reaches it.
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
 * Returns the names of a client's certificate: common names, and alternative names of the kinds DNS and URI (as SPIFFE
 * has them). A name that Node had to quote, because it holds separators, counts as none.
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
