import { Metadata, Server, type ServerInterceptingCallInterface, status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { answerUnknownMethods, withStatusDetails } from "../../../../deploy/runtime/grpc/status-details.ts";
import { EngineError, toFailedCall } from "../../../../engine/errors.ts";
import { explained, UNKNOWN_METHOD } from "../../../../engine/grpc/interceptors.ts";
import { errorInfo } from "../../../support/engine/node-client.ts";

type Sent = Parameters<ServerInterceptingCallInterface["sendStatus"]>[0];

/** A grpc-js call, and the statuses sent through it. */
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

test("messages pass unchanged", () => {
  const { call, wrapped, sendMessage } = intercepted();
  expect(wrapped).toBe(call);
  expect(wrapped.sendMessage).toBe(sendMessage);
});

test("OK, and a status with details, pass unchanged", () => {
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
])("a status %i with the text %j becomes %s, with the node's own text", (code, details, reason) => {
  const { wrapped, sent } = intercepted();
  wrapped.sendStatus({ code, details });
  const [{ metadata, ...ended } = { code, details }] = sent;
  expect(errorInfo({ metadata: metadata ?? new Metadata() })).toMatchObject({ reason, domain: "svc.inference" });
  expect(ended.details).not.toContain("secret");
});

test("a server whose library lacks the internal method is unchanged", () => {
  const server = new Server();
  Reflect.set(server, "_retrieveHandler", undefined);
  answerUnknownMethods(server, UNKNOWN_METHOD);
  expect(Reflect.get(server, "_retrieveHandler")).toBeUndefined();
});
