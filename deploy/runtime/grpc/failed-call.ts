import { Metadata, type status } from "@grpc/grpc-js";
import type { Any } from "../../../proto/gen/google/protobuf/any.ts";
import { BadRequest, ErrorInfo, RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { toDuration } from "../time/proto-duration.ts";

const DOMAIN = "svc.inference";
/** The trailer in which a failed call carries its `google.rpc.Status`. */
export const DETAILS_KEY = "grpc-status-details-bin";

/** The status of a failed call, as grpc-js wants it. */
export type FailedCall = { readonly code: status; readonly details: string; readonly metadata: Metadata };

/** What a failed call tells programs. */
export type FailureFacts = {
  /** The gRPC status of the call. */
  readonly code: status;
  /** The text for people, which repeats nothing of what the caller sent. */
  readonly message: string;
  /** The reason for programs: `google.rpc.ErrorInfo.reason`. */
  readonly reason: string;
  /** The facts for programs: `google.rpc.ErrorInfo.metadata`. */
  readonly facts: Readonly<Record<string, string>>;
  /**
   * When the same call may do better, in milliseconds from now, which goes as `google.rpc.RetryInfo`. Default: not told.
   */
  readonly retryAfterMs?: number | undefined;
  /** The path of the field at fault, which goes as `google.rpc.BadRequest`. Default: no field is named. */
  readonly field?: string | undefined;
};

/** Returns the status of a failed call with its `google.rpc.Status`, of which `google.rpc.ErrorInfo` is always a part. */
export function failedCall({ code, message, reason, facts, retryAfterMs, field }: FailureFacts): FailedCall {
  const info: ErrorInfo = { reason, domain: DOMAIN, metadata: facts };
  const details = [packed("ErrorInfo", ErrorInfo.encode(info).finish())];
  if (retryAfterMs !== undefined) {
    const retry: RetryInfo = { retryDelay: toDuration(retryAfterMs) };
    details.push(packed("RetryInfo", RetryInfo.encode(retry).finish()));
  }
  if (field !== undefined) {
    const request: BadRequest = { fieldViolations: [{ field, description: message }] };
    details.push(packed("BadRequest", BadRequest.encode(request).finish()));
  }
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(Status.encode({ code, message, details }).finish()));
  return { code, details: message, metadata };
}

function packed(message: string, bytes: Uint8Array): Any {
  return { typeUrl: `type.googleapis.com/google.rpc.${message}`, value: Buffer.from(bytes) };
}
