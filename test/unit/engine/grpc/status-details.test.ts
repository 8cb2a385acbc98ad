import { Metadata, Server, type ServerInterceptingCallInterface, status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { answerUnknownMethods, withStatusDetails } from "../../../../deploy/runtime/grpc/status-details.ts";
import { EngineError, toFailedCall } from "../../../../engine/errors.ts";
import { explained, UNKNOWN_METHOD } from "../../../../engine/grpc/status-details.ts";
import { errorInfo } from "../../../support/engine/node-client.ts";

type Sent = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/** A call at the border to grpc-js, and the statuses that leave through it. */
function intercepted() {
  const sent: Sent[] = [];
  const call = {
    sendStatus: (ended: Sent) => sent.push(ended),
    sendMessage: () => {},
  } as unknown as ServerInterceptingCallInterface;
  const { sendMessage } = call;
  const method = { path: "/s/m", requestStream: false, responseStream: true };
  const wrapped = withStatusDetails(explained)(
    { ...method, requestDeserialize: (bytes) => bytes, responseSerialize: () => Buffer.alloc(0) },
    call,
  );
  return { call, wrapped, sent, sendMessage };
}

test("nothing stands between a call and its messages", () => {
  const { call, wrapped, sendMessage } = intercepted();
  expect(wrapped).toBe(call);
  expect(wrapped.sendMessage).toBe(sendMessage);
});

test("what is OK or has details already goes as it is", () => {
  const { wrapped, sent } = intercepted();
  const fine = { code: status.OK, details: "OK", metadata: null };
  const told = toFailedCall(new EngineError("QUEUE_FULL", "full"), 5);
  wrapped.sendStatus(fine);
  wrapped.sendStatus(told);
  expect(sent).toEqual([fine, told]);
});

test.each([
  [status.INTERNAL, "Error deserializing request: secret", "INVALID_REQUEST"],
  [status.INTERNAL, "Error serializing response", "ENGINE_ERROR"],
  [status.UNKNOWN, "Unknown error", "ENGINE_ERROR"],
  [status.CANCELLED, "Cancelled", "CANCELLED"],
  [status.UNAVAILABLE, "secret", "ENGINE_ERROR"],
])("a status %i that says %j becomes %s, in words of its own", (code, details, reason) => {
  const { wrapped, sent } = intercepted();
  wrapped.sendStatus({ code, details });
  const [{ metadata, ...ended } = { code, details }] = sent;
  expect(errorInfo({ metadata: metadata ?? new Metadata() })).toMatchObject({ reason, domain: "svc.inference" });
  expect(ended.details).not.toContain("secret");
});

test("a server whose library has no such inner method is left as it is", () => {
  const server = new Server();
  Reflect.set(server, "_retrieveHandler", undefined);
  answerUnknownMethods(server, UNKNOWN_METHOD);
  expect(Reflect.get(server, "_retrieveHandler")).toBeUndefined();
});
