import { status } from "@grpc/grpc-js";

/** Connection errors of grpc-js and the system, and their meaning for operators; first match wins. */
const CONNECTION: readonly (readonly [RegExp, string])[] = [
  [/self-signed|unable to (get|verify)|issuer/, "its certificate is not signed by the authority in tls.caFile"],
  [/ERR_TLS_CERT_ALTNAME_INVALID/, "its certificate is for another name: see tls.serverName"],
  [/certificate has expired|not yet valid/, "its certificate is not valid at this time"],
  [/alert certificate required|handshake failure/, "it asks for a certificate: see tls.certFile"],
  [/SSL alert|alert (bad|unknown|unsupported)/, "it refuses the certificate in tls.certFile"],
  [/wrong version number|packet length too long/, "it does not speak TLS"],
  [/ECONNREFUSED/, "connection refused"],
  [/ENOTFOUND|EAI_AGAIN|Name resolution/, "its host name has no address"],
  [/EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/, "unreachable"],
  // The behaviour of a peer that requires TLS, or another certificate, and sends no error.
  [/Failed to connect/, "it closes the connection while it is set up: see tls"],
];

/** Returns why a node is not healthy, in words for operators, from a failed call. It is shown to operators only. */
export function healthFailure({ code, details }: { readonly code: status; readonly details: string }): string {
  if (code === status.DEADLINE_EXCEEDED) return "no answer in time";
  if (code === status.PERMISSION_DENIED) return "it answers with PERMISSION_DENIED: see its tls.allowedClientNames";
  if (code !== status.UNAVAILABLE) return `it answers with ${status[code] ?? code}`;
  return CONNECTION.find(([said]) => said.test(details))?.[1] ?? "connection lost";
}
