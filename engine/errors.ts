import { Metadata, status } from "@grpc/grpc-js";
import { toDuration } from "../deploy/runtime/time/proto-duration.ts";
import type { Any } from "../proto/gen/google/protobuf/any.ts";
import { ErrorInfo, RetryInfo } from "../proto/gen/google/rpc/error_details.ts";
import { Status } from "../proto/gen/google/rpc/status.ts";

/** `google.rpc.ErrorInfo.reason`: why a call failed, for programs. The closed set of this service. */
export type ErrorReason =
  | "INVALID_REQUEST"
  | "UNSUPPORTED_FEATURE"
  | "INVALID_SCHEMA"
  | "CONTEXT_WINDOW_EXCEEDED"
  | "MESSAGE_TOO_LARGE"
  | "UNIMPLEMENTED"
  | "CALLER_NOT_ALLOWED"
  | "MODEL_NOT_SERVED"
  | "MODEL_LOADING"
  | "QUEUE_FULL"
  | "DRAINING"
  | "DEADLINE"
  | "CANCELLED"
  | "ENGINE_DOWN"
  | "ENGINE_ABORTED"
  | "ENGINE_STREAM_TRUNCATED"
  | "ENGINE_ERROR"
  | "PROTOCOL_VIOLATION";

/** The gRPC status of every reason. */
const CODE: Readonly<Record<ErrorReason, status>> = {
  INVALID_REQUEST: status.INVALID_ARGUMENT,
  UNSUPPORTED_FEATURE: status.INVALID_ARGUMENT,
  INVALID_SCHEMA: status.INVALID_ARGUMENT,
  CONTEXT_WINDOW_EXCEEDED: status.OUT_OF_RANGE,
  MESSAGE_TOO_LARGE: status.RESOURCE_EXHAUSTED,
  UNIMPLEMENTED: status.UNIMPLEMENTED,
  CALLER_NOT_ALLOWED: status.PERMISSION_DENIED,
  MODEL_NOT_SERVED: status.NOT_FOUND,
  MODEL_LOADING: status.FAILED_PRECONDITION,
  QUEUE_FULL: status.RESOURCE_EXHAUSTED,
  DRAINING: status.UNAVAILABLE,
  DEADLINE: status.DEADLINE_EXCEEDED,
  CANCELLED: status.CANCELLED,
  ENGINE_DOWN: status.UNAVAILABLE,
  ENGINE_ABORTED: status.ABORTED,
  ENGINE_STREAM_TRUNCATED: status.UNAVAILABLE,
  ENGINE_ERROR: status.INTERNAL,
  PROTOCOL_VIOLATION: status.INTERNAL,
};

/** Failures that the node is to blame for; everything else is a refusal, or the caller's doing. */
export const NODE_FAULTS: ReadonlySet<ErrorReason> = new Set<ErrorReason>([
  "ENGINE_DOWN",
  "ENGINE_ABORTED",
  "ENGINE_STREAM_TRUNCATED",
  "ENGINE_ERROR",
  "PROTOCOL_VIOLATION",
]);

const DOMAIN = "svc.inference";
/** The trailer in which a failed call carries its `google.rpc.Status`. */
export const DETAILS_KEY = "grpc-status-details-bin";

/** The one error that crosses a module boundary in the engine; its message never repeats what the caller sent. */
export class EngineError extends Error {
  readonly reason: ErrorReason;
  /** Facts for programs, such as `input_tokens` and `context_window`. */
  readonly facts: Readonly<Record<string, string>>;

  constructor(reason: ErrorReason, message: string, facts: Readonly<Record<string, string>> = {}, cause?: unknown) {
    super(message, { cause });
    this.name = "EngineError";
    this.reason = reason;
    this.facts = facts;
  }
}

/** The way in for whatever was thrown: unknown errors lose their text. */
export function toEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError("ENGINE_ERROR", "The engine had an error while processing the request.", {}, error);
}

/** The gRPC status of a call by its name. */
export function grpcStatusOf(failure: EngineError | undefined): string {
  return status[failure ? CODE[failure.reason] : status.OK];
}

/** A failed call, as grpc-js wants it. */
export type FailedCall = { readonly code: status; readonly details: string; readonly metadata: Metadata };

/**
 * A gRPC status with `google.rpc.ErrorInfo` in its details. `retryAfterMs`: when the same call may do better, in
 * milliseconds from now; it goes as `google.rpc.RetryInfo`.
 */
export function toFailedCall(error: EngineError, retryAfterMs?: number): FailedCall {
  const code = CODE[error.reason];
  const info: ErrorInfo = { reason: error.reason, domain: DOMAIN, metadata: error.facts };
  const details = [packed("ErrorInfo", ErrorInfo.encode(info).finish())];
  if (retryAfterMs !== undefined) {
    const retry: RetryInfo = { retryDelay: toDuration(retryAfterMs) };
    details.push(packed("RetryInfo", RetryInfo.encode(retry).finish()));
  }
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(Status.encode({ code, message: error.message, details }).finish()));
  return { code, details: error.message, metadata };
}

function packed(message: string, bytes: Uint8Array): Any {
  return { typeUrl: `type.googleapis.com/google.rpc.${message}`, value: Buffer.from(bytes) };
}
