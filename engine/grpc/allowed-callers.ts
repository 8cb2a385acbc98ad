import type {
  ServerInterceptingCall,
  ServerInterceptingCallInterface,
  ServerInterceptor,
  ServerMethodDefinition,
} from "@grpc/grpc-js";
import { EngineError, toFailedCall } from "../errors.ts";

type Certificate = NonNullable<ReturnType<ServerInterceptingCallInterface["getAuthContext"]>["sslPeerCertificate"]>;

/**
 * An interceptor: calls of certificates that carry none of these names are refused, on every service of the node. The
 * names are those of `callerNames`.
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

/** A name as Node quotes it: JSON. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/**
 * The names of a client's certificate: common names, and alternative names of the kinds DNS and URI (as SPIFFE has them).
 * Names that Node had to quote, because they hold separators, count as none.
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
