import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { healthFailure } from "../../../../../gateway/upstream/endpoint/health-failure.ts";

const unreachable = (cause: string) =>
  healthFailure({
    code: status.UNAVAILABLE,
    details: `No connection established. Last error: ${cause}. Resolution note: `,
  });

test.each([
  ["Error: connect ECONNREFUSED 10.0.0.1:50051", "connection refused"],
  ["Error: connect EHOSTUNREACH 10.0.0.1:50051", "unreachable"],
  [
    "Error: self-signed certificate in certificate chain",
    "its certificate is not signed by the authority in tls.caFile",
  ],
  ["Error: unable to verify the first certificate", "its certificate is not signed by the authority in tls.caFile"],
  [
    "Error [ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames: Host: a. is not in",
    "its certificate is for another name: see tls.serverName",
  ],
  ["Error: certificate has expired", "its certificate is not valid at this time"],
  [
    "0A00045C:SSL routines:ssl3_read_bytes:tlsv13 alert certificate required",
    "it asks for a certificate: see tls.certFile",
  ],
  ["0A000418:SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca", "it refuses the certificate in tls.certFile"],
  ["Error: 0A00010B:SSL routines:ssl3_get_record:wrong version number", "it does not speak TLS"],
  ["Failed to connect (2026-11-21T14:03:46.742Z)", "it closes the connection while it is set up: see tls"],
])("%s", (cause, why) => {
  expect(unreachable(cause)).toBe(why);
});

test.each([
  [{ code: status.UNAVAILABLE, details: "Connection dropped" }, "connection lost"],
  [{ code: status.UNAVAILABLE, details: "Name resolution failed for target dns:a:1" }, "its host name has no address"],
  [{ code: status.DEADLINE_EXCEEDED, details: "Deadline exceeded after 2s" }, "no answer in time"],
  [
    { code: status.PERMISSION_DENIED, details: "10.0.0.1 said no" },
    "it answers with PERMISSION_DENIED: see its tls.allowedClientNames",
  ],
])("%j", (failure, why) => {
  expect(healthFailure(failure)).toBe(why);
});
