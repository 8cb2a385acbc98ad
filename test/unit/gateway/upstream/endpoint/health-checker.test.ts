import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { HealthState, healthFailure } from "../../../../../gateway/upstream/endpoint/health-checker.ts";

const unreachable = (cause: string) => ({
  code: status.UNAVAILABLE,
  details: `No connection established. Last error: ${cause}. Resolution note: `,
});
const SIGNED = "its certificate is not signed by the authority in tls.caFile";
const ASKED = "it asks for a certificate: see tls.certFile";

test.each([
  [unreachable("Error: connect ECONNREFUSED 10.0.0.1:50051"), "connection refused"],
  [unreachable("Error: connect EHOSTUNREACH 10.0.0.1:50051"), "unreachable"],
  [unreachable("Error: self-signed certificate in certificate chain"), SIGNED],
  [unreachable("Error: unable to verify the first certificate"), SIGNED],
  [
    unreachable("Error [ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames: Host: a."),
    "its certificate is for another name: see tls.serverName",
  ],
  [unreachable("Error: certificate has expired"), "its certificate is not valid at this time"],
  [unreachable("0A00045C:SSL routines:ssl3_read_bytes:tlsv13 alert certificate required"), ASKED],
  [
    unreachable("0A000418:SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca"),
    "it refuses the certificate in tls.certFile",
  ],
  [unreachable("Error: 0A00010B:SSL routines:ssl3_get_record:wrong version number"), "it does not speak TLS"],
  [unreachable("Failed to connect (2026-11-21T14:03:46.742Z)"), "it closes the connection while it is set up: see tls"],
  [{ code: status.UNAVAILABLE, details: "Connection dropped" }, "connection lost"],
  [{ code: status.UNAVAILABLE, details: "Name resolution failed for target dns:a:1" }, "its host name has no address"],
  [{ code: status.DEADLINE_EXCEEDED, details: "Deadline exceeded after 2s" }, "no answer in time"],
  [
    { code: status.PERMISSION_DENIED, details: "refused" },
    "it answers with PERMISSION_DENIED: see its tls.allowedClientNames",
  ],
])("the failure %j reads: %s", (failure, why) => {
  expect(healthFailure(failure)).toBe(why);
});

/** p: a check passed, f: it failed, n: the node reported that it is not serving. Two failures make it unhealthy. */
test.each([
  ["", "unhealthy", "nothing is healthy before a check"],
  ["f", "unhealthy", "the first check decides alone"],
  ["n", "unhealthy", "so does the node's own report"],
  ["p", "well", "the first pass decides"],
  ["pf", "in doubt", "one failure raises doubt"],
  ["pfp", "well", "a pass ends the doubt"],
  ["pfpf", "in doubt", "failures that are not in a row do not count together"],
  ["pff", "unhealthy", "two failures in a row count"],
  ["pn", "unhealthy", "the node's own report needs no second one"],
  ["pffp", "unhealthy", "one pass is not enough afterwards"],
  ["pffpfp", "unhealthy", "a failure in between begins the row anew"],
  ["pffpp", "well", "two passes in a row bring it back"],
  ["npp", "well", "also where it never was healthy"],
])("after %o it is %s: %s", (checks, expected) => {
  const state = new HealthState();
  for (const check of checks) {
    if (check === "p") state.pass();
    else if (check === "f") state.fail();
    else state.failNow();
  }
  expect(state.well ? "well" : state.healthy ? "in doubt" : "unhealthy").toBe(expected);
});
