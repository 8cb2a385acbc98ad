import { Server, type ServerInterceptingCallInterface, type ServerMethodDefinition } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { answerUnknownMethods } from "../../../deploy/runtime/grpc/status-details.ts";
import { callerNames, drainedByTrusted, UNKNOWN_METHOD } from "../../../engine/grpc/interceptors.ts";
import { NodeServiceService } from "../../../proto/gen/svc/inference/v1/node_service.ts";

type Call = ServerInterceptingCallInterface;
type Certificate = Parameters<typeof callerNames>[0];

/** A subject as Node returns it: a list for several names. */
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

const NODE = { subject: subjectOf("gateway") };

test.each([
  ["the node's own machine", "127.0.0.1:40000", undefined, false],
  ["the node's own machine by IPv6", "[::1]:40000", undefined, false],
  ["another machine that showed a certificate", "10.0.0.7:40000", NODE, false],
  ["another machine that showed nothing", "10.0.0.7:40000", undefined, true],
  ["a name that begins like an address", "127.0.0.1.evil:40000", undefined, true],
])("a drain by %s", (_who, peer, sslPeerCertificate, refused) => {
  const isRefused = (method: { readonly path: string }) => {
    let statuses = 0;
    const call = {
      getPeer: () => peer,
      getAuthContext: () => ({ sslPeerCertificate }),
      sendStatus: () => {
        statuses += 1;
      },
    };
    drainedByTrusted(method as ServerMethodDefinition<unknown, unknown>, call as unknown as Call);
    return statuses > 0;
  };
  expect(isRefused(NodeServiceService.drainNode)).toBe(refused);
  expect(isRefused(NodeServiceService.describeNode)).toBe(false);
});

test("a server whose library lacks the internal method is unchanged", () => {
  const server = new Server();
  Reflect.set(server, "_retrieveHandler", undefined);
  answerUnknownMethods(server, UNKNOWN_METHOD);
  expect(Reflect.get(server, "_retrieveHandler")).toBeUndefined();
});
