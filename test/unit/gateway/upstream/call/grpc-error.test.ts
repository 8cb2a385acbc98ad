import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { EngineError, type ErrorReason, toFailedCall } from "../../../../../engine/errors.ts";
import { fromGrpc } from "../../../../../gateway/upstream/call/grpc-error.ts";
import { RetryInfo } from "../../../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../../../proto/gen/google/rpc/status.ts";

/** The caller's error when the node refuses. */
function refusal(reason: ErrorReason, retryAfterMs?: number): ServiceError {
  return Object.assign(new Error(), toFailedCall(new EngineError(reason, "no"), retryAfterMs));
}

test("a full node's own retry delay reaches the client", () => {
  expect(fromGrpc(refusal("QUEUE_FULL", 2_345.5), false).error.retryAfterMs).toBe(2_345.5);
  expect(fromGrpc(refusal("QUEUE_FULL"), false).error.retryAfterMs).toBeUndefined();
  expect(fromGrpc(refusal("DRAINING", 5), false).error.retryAfterMs).toBeUndefined();
});

test.each<[string, ServiceError, string, boolean]>([
  ["with the node's reason", refusal("MESSAGE_TOO_LARGE"), "upstream_message_too_large", false],
  [
    "without any",
    Object.assign(new Error(), { code: status.RESOURCE_EXHAUSTED, details: "", metadata: new Metadata() }),
    "upstream_message_too_large",
    false,
  ],
  ["because the queue is full", refusal("QUEUE_FULL"), "upstream_queue_full", true],
  ["for a method that an older node does not have", refusal("UNIMPLEMENTED"), "upstream_internal", true],
  ["because the gateway's certificate has the wrong name", refusal("CALLER_NOT_ALLOWED"), "upstream_internal", true],
])("a call refused %s is distinguished", (_why, cause, detail, retriable) => {
  expect(fromGrpc(cause, false)).toMatchObject({ error: { detail }, retriable });
});

test("details that are not a google.rpc.Status leave it to the status code", () => {
  const cause = refusal("INVALID_REQUEST");
  cause.metadata.set("grpc-status-details-bin", Buffer.from([0xff, 0xff]));
  expect(fromGrpc(cause, false)).toMatchObject({ error: { detail: "engine_invalid_request" }, retriable: false });
});

test("a full node that only reports a retry delay is skipped until then", () => {
  const retry = RetryInfo.encode({ retryDelay: { seconds: 2, nanos: 500_000_000 } }).finish();
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.RetryInfo", value: Buffer.from(retry) }];
  const code = status.RESOURCE_EXHAUSTED;
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(Status.encode({ code, message: "", details }).finish()));
  const cause = Object.assign(new Error(), { code, details: "", metadata });
  expect(fromGrpc(cause, false)).toMatchObject({
    error: { detail: "upstream_queue_full", retryAfterMs: 2_500 },
    retriable: true,
    ending: { kind: "status", notReady: true },
  });
});

describe("a conversation that a model does not support", () => {
  const refused = (facts: Record<string, string>) => {
    const error = new EngineError("INVALID_REQUEST", "no", facts);
    return fromGrpc(Object.assign(new Error(), toFailedCall(error)), true).error;
  };
  const template = "The model cannot process this request: its chat template does not take this";
  test.each<[string, Record<string, string>, number | undefined, string]>([
    [
      "for which its template has words",
      { field: "messages[3]", template_says: "Roles must alternate user/assistant." },
      3,
      `${template} ("Roles must alternate user/assistant").`,
    ],
    ["without words", { field: "messages[12]" }, 12, `${template}.`],
    ["whose words may be a caller's", { field: "messages[0]", template_says: "<b>x</b>\n" }, 0, `${template}.`],
    [
      "beside another engine",
      { about: "turns" },
      undefined,
      "The model cannot process this request: it is about the order of roles.",
    ],
    ["for a reason of no known name", { about: "toString" }, undefined, `${template.split(":")[0]}.`],
  ])("a conversation that a model does not support is refused %s", (_what, facts, message, words) => {
    const error = refused(facts);
    expect(error).toMatchObject({ code: "invalid_value", detail: "engine_prompt_refused", wording: words });
    expect(error.promptMessage).toBe(message);
  });
});
