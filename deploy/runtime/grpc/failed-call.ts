import { Metadata, type status } from "@grpc/grpc-js";
import type { Any } from "../../../proto/gen/google/protobuf/any.ts";
import { BadRequest, ErrorInfo, RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { toDuration } from "../time/proto-duration.ts";

const DOMAIN = "svc.inference";
/** Trailer with the `google.rpc.Status` of a failed call. */
export const DETAILS_KEY = "grpc-status-details-bin";

/** Status of a failed call in the form of grpc-js. */
export type FailedCall = { readonly code: status; readonly details: string; readonly metadata: Metadata };

export type FailureFacts = {
  readonly code: status;
  /** Message for people, without text of the caller. */
  readonly message: string;
  /** Reason for programs: `google.rpc.ErrorInfo.reason`. */
  readonly reason: string;
  /** Facts for programs: `google.rpc.ErrorInfo.metadata`. */
  readonly facts: Readonly<Record<string, string>>;
  /** Retry delay in milliseconds from now, sent as `google.rpc.RetryInfo`. Default: none. */
  readonly retryAfterMs?: number | undefined;
  /** Path of the field at fault, sent as `google.rpc.BadRequest`. Default: none. */
  readonly field?: string | undefined;
};

/** Returns the status of a failed call with its `google.rpc.Status`, which always contains `google.rpc.ErrorInfo`. */
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
