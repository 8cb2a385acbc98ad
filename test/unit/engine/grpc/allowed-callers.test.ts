import { expect, test } from "vitest";
import { callerNames } from "../../../../engine/grpc/allowed-callers.ts";

type Certificate = Parameters<typeof callerNames>[0];

/** A subject as Node gives it: a list where there are several. */
function subjectOf(CN?: string | readonly string[]): Certificate["subject"] {
  return { C: "", ST: "", L: "", O: "", OU: "", ...(CN === undefined ? {} : { CN }) } as Certificate["subject"];
}

test.each<[string, Certificate, readonly string[]]>([
  ["its common name", { subject: subjectOf("gateway") }, ["gateway"]],
  ["each of several", { subject: subjectOf(["one", "two"]) }, ["one", "two"]],
  ["none at all", { subject: subjectOf() }, []],
  [
    "alternative names of hosts and URIs, no other kinds",
    { subject: subjectOf(), subjectaltname: "DNS:gateway.svc, URI:spiffe://c/g, IP Address:10.0.0.1, email:a@b" },
    ["gateway.svc", "spiffe://c/g"],
  ],
  [
    "nothing of a name that was made to look like two",
    { subject: subjectOf(), subjectaltname: 'URI:"spiffe://x, DNS:gateway", DNS:other' },
    ["other"],
  ],
  [
    "nothing of what stands in the middle of such a name",
    { subject: subjectOf(), subjectaltname: 'URI:"spiffe://x\\", DNS:gateway, DNS:other, y", DNS:third' },
    ["third"],
  ],
])("a certificate's names: %s", (_what, certificate, names) => {
  expect(callerNames(certificate)).toEqual(names);
});
