import { status } from "@grpc/grpc-js";
import { type FailedCall, failedCall } from "../deploy/runtime/grpc/failed-call.ts";

/** The meaning of one reason of failure, and how it goes out. */
type ReasonRow = {
  /** The gRPC status of a call that failed for this reason. */
  readonly status: status;
  /** The meaning of the reason: what happened, as a sentence that stands alone. */
  readonly meaning: string;
};

const REASON_TABLE = {
  INVALID_REQUEST: {
    status: status.INVALID_ARGUMENT,
    meaning: "The request cannot be read, or a field of it has a value that the contract does not allow.",
  },
  UNSUPPORTED_FEATURE: {
    status: status.INVALID_ARGUMENT,
    meaning: "The request is valid, and asks for something that this model or its backend cannot do.",
  },
  INVALID_SCHEMA: {
    status: status.INVALID_ARGUMENT,
    meaning: "A JSON Schema is broken or too large, or a strict one has a keyword that cannot be enforced.",
  },
  CONTEXT_WINDOW_EXCEEDED: {
    status: status.OUT_OF_RANGE,
    meaning: "The prompt is longer than the context window; the facts are `input_tokens` and `context_window`.",
  },
  MESSAGE_TOO_LARGE: {
    status: status.RESOURCE_EXHAUSTED,
    meaning: "The gRPC message is larger than the node takes.",
  },
  UNIMPLEMENTED: {
    status: status.UNIMPLEMENTED,
    meaning: "The node does not know the method, or not that way of calling it.",
  },
  CALLER_NOT_ALLOWED: {
    status: status.PERMISSION_DENIED,
    meaning: "The caller's certificate has none of the names in `tls.allowedClientNames`.",
  },
  MODEL_NOT_SERVED: { status: status.NOT_FOUND, meaning: "The node serves no model of the name." },
  MODEL_LOADING: { status: status.FAILED_PRECONDITION, meaning: "The node is still loading the model." },
  REVISION_MISMATCH: {
    status: status.FAILED_PRECONDITION,
    meaning: "Another revision of the model began the answer that the caller wants to go on with.",
  },
  QUEUE_FULL: {
    status: status.RESOURCE_EXHAUSTED,
    meaning:
      "All slots are busy and the node's queue is full, or the caller has as much under way as it may; `google.rpc.RetryInfo` says when to come again.",
  },
  DRAINING: { status: status.UNAVAILABLE, meaning: "The node is being taken out of service and takes no new calls." },
  DEADLINE: { status: status.DEADLINE_EXCEEDED, meaning: "The deadline of the call has passed." },
  CANCELLED: { status: status.CANCELLED, meaning: "The caller has left." },
  ENGINE_DOWN: {
    status: status.UNAVAILABLE,
    meaning: "The engine cannot be reached, could not be started, has gone silent or is stopping.",
  },
  ENGINE_ABORTED: { status: status.ABORTED, meaning: "The engine gave up the generation by itself." },
  ENGINE_STREAM_TRUNCATED: {
    status: status.UNAVAILABLE,
    meaning: "The engine's answer broke off before it was complete.",
  },
  ENGINE_ERROR: { status: status.INTERNAL, meaning: "The engine failed in a way that has no reason of its own." },
  PROTOCOL_VIOLATION: {
    status: status.INTERNAL,
    meaning: "The engine sent what its protocol does not allow, or ended without finishing the answer.",
  },
} as const satisfies Readonly<Record<string, ReasonRow>>;

/** The reason why a call failed, for programs: `google.rpc.ErrorInfo.reason`, from a closed set. */
export type ErrorReason = keyof typeof REASON_TABLE;

/** The rows of all reasons that a failed call may carry. */
export const REASONS: Readonly<Record<ErrorReason, ReasonRow>> = REASON_TABLE;

/** The reasons that the node is to blame for. All others are a refusal, or the caller's doing. */
export const NODE_FAULTS: ReadonlySet<ErrorReason> = new Set<ErrorReason>([
  "ENGINE_DOWN",
  "ENGINE_ABORTED",
  "ENGINE_STREAM_TRUNCATED",
  "ENGINE_ERROR",
  "PROTOCOL_VIOLATION",
]);

/** The one error that crosses a module boundary in the engine. Its message never repeats what the caller sent. */
export class EngineError extends Error {
  /** The reason why the call failed. */
  readonly reason: ErrorReason;
  /** The facts for programs, for example `input_tokens` and `context_window`. Default: none. */
  readonly facts: Readonly<Record<string, string>>;

  /** Makes an error. `cause` is what was thrown below, and is never sent. */
  constructor(reason: ErrorReason, message: string, facts: Readonly<Record<string, string>> = {}, cause?: unknown) {
    super(message, { cause });
    this.name = "EngineError";
    this.reason = reason;
    this.facts = facts;
  }
}

/**
 * Turns whatever was thrown into an `EngineError`. An unknown error becomes ENGINE_ERROR, and its text is kept back.
 */
export function toEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError("ENGINE_ERROR", "The engine had an error while processing the request.", {}, error);
}

/** Returns the name of the gRPC status that a call ends with, `OK` where it did not fail. */
export function grpcStatusOf(failure: EngineError | undefined): string {
  return status[failure ? REASONS[failure.reason].status : status.OK];
}

/**
 * Returns an error as a gRPC status with `google.rpc.ErrorInfo` in its details. `retryAfterMs` is when the same call
 * may do better, in milliseconds from now; where it is given it goes as `google.rpc.RetryInfo`.
 */
export function toFailedCall({ reason, message, facts }: EngineError, retryAfterMs?: number): FailedCall {
  return failedCall({ code: REASONS[reason].status, message, reason, facts, retryAfterMs });
}
