import { status } from "@grpc/grpc-js";
import { type FailedCall, failedCall } from "../deploy/runtime/grpc/status-details.ts";

type ReasonRow = {
  readonly status: status;
  readonly meaning: string;
};

const REASON_TABLE = {
  INVALID_REQUEST: {
    status: status.INVALID_ARGUMENT,
    meaning: "The request cannot be parsed, or one of its fields has a value that the contract does not allow.",
  },
  UNSUPPORTED_FEATURE: {
    status: status.INVALID_ARGUMENT,
    meaning: "The request is valid, but needs a feature that this model or its backend does not have.",
  },
  INVALID_SCHEMA: {
    status: status.INVALID_ARGUMENT,
    meaning: "A JSON Schema is invalid or too large, or a strict one has a keyword that cannot be enforced.",
  },
  CONTEXT_WINDOW_EXCEEDED: {
    status: status.OUT_OF_RANGE,
    meaning: "The prompt is longer than the context window; the facts are `input_tokens` and `context_window`.",
  },
  MESSAGE_TOO_LARGE: {
    status: status.RESOURCE_EXHAUSTED,
    meaning: "The gRPC message is larger than the node's limit.",
  },
  UNIMPLEMENTED: {
    status: status.UNIMPLEMENTED,
    meaning: "The node does not have the method, or not with this message encoding or call type.",
  },
  CALLER_NOT_ALLOWED: {
    status: status.PERMISSION_DENIED,
    meaning: "The caller's certificate has none of the names in `tls.allowedClientNames`.",
  },
  MODEL_NOT_SERVED: { status: status.NOT_FOUND, meaning: "The node serves no model of the name." },
  MODEL_LOADING: { status: status.FAILED_PRECONDITION, meaning: "The node is still loading the model." },
  REVISION_MISMATCH: {
    status: status.FAILED_PRECONDITION,
    meaning: "Another revision of the model began the answer that the caller wants to continue.",
  },
  PREFIX_UNKNOWN: {
    status: status.FAILED_PRECONDITION,
    meaning: "The node does not have the messages that the request leaves out; its caller sends them all.",
  },
  HAND_OVER_LOST: {
    status: status.UNAVAILABLE,
    meaning: "The prompt that another node has read cannot be taken; the same call without the hand-over reads it.",
  },
  QUEUE_FULL: {
    status: status.RESOURCE_EXHAUSTED,
    meaning:
      "All slots are busy and the node's queue is full, or the caller has reached its limit of concurrent work; `google.rpc.RetryInfo` carries the retry delay.",
  },
  DRAINING: { status: status.UNAVAILABLE, meaning: "The node is being taken out of service and takes no new calls." },
  DEADLINE: { status: status.DEADLINE_EXCEEDED, meaning: "The deadline of the call has passed." },
  CANCELLED: { status: status.CANCELLED, meaning: "The caller has left." },
  ENGINE_DOWN: {
    status: status.UNAVAILABLE,
    meaning: "The engine cannot be reached, could not be started, has gone silent or is stopping.",
  },
  ENGINE_ABORTED: { status: status.ABORTED, meaning: "The engine aborted the generation on its own." },
  ENGINE_STREAM_TRUNCATED: {
    status: status.UNAVAILABLE,
    meaning: "The engine's answer broke off before it was complete.",
  },
  ENGINE_ERROR: { status: status.INTERNAL, meaning: "The engine failed for a reason without a name of its own." },
  PROTOCOL_VIOLATION: {
    status: status.INTERNAL,
    meaning: "The engine violated its protocol, or ended without finishing the answer.",
  },
} as const satisfies Readonly<Record<string, ReasonRow>>;

/** The reason why a call failed, for programs: `google.rpc.ErrorInfo.reason`, from a closed set. */
export type ErrorReason = keyof typeof REASON_TABLE;

export const REASONS: Readonly<Record<ErrorReason, ReasonRow>> = REASON_TABLE;

/** The reasons that are faults of the node. All others are refusals or caused by the caller. */
export const NODE_FAULTS: ReadonlySet<ErrorReason> = new Set<ErrorReason>([
  "ENGINE_DOWN",
  "ENGINE_ABORTED",
  "ENGINE_STREAM_TRUNCATED",
  "ENGINE_ERROR",
  "PROTOCOL_VIOLATION",
]);

/** The only error class that crosses a module boundary in the engine. Its message never repeats caller input. */
export class EngineError extends Error {
  readonly reason: ErrorReason;
  /** Machine-readable facts, such as `input_tokens` and `context_window`. Default: none. */
  readonly facts: Readonly<Record<string, string>>;

  /** `cause` is the underlying error; it is never sent. */
  constructor(reason: ErrorReason, message: string, facts: Readonly<Record<string, string>> = {}, cause?: unknown) {
    super(message, { cause });
    this.name = "EngineError";
    this.reason = reason;
    this.facts = facts;
  }
}

/** Converts a thrown value to an `EngineError`. An unknown error becomes ENGINE_ERROR and its text is not sent. */
export function toEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError("ENGINE_ERROR", "The engine had an error while processing the request.", {}, error);
}

/** Returns the name of the gRPC status of a call; `OK` if it did not fail. */
export function grpcStatusOf(failure: EngineError | undefined): string {
  return status[failure ? REASONS[failure.reason].status : status.OK];
}

/** Returns an error as a gRPC status with `ErrorInfo` and, if a delay is given, `RetryInfo` in its details. */
export function toFailedCall({ reason, message, facts }: EngineError, retryAfterMs?: number): FailedCall {
  return failedCall({ code: REASONS[reason].status, message, reason, facts, retryAfterMs });
}

/** Returns the error of aborted work: the signal's reason if it is an `EngineError`, else CANCELLED. */
export function callerLeft(signal: AbortSignal): EngineError {
  return signal.reason instanceof EngineError ? signal.reason : new EngineError("CANCELLED", "The caller has left.");
}

export function throwIfLeft(signal: AbortSignal): void {
  if (signal.aborted) throw callerLeft(signal);
}

export function notOfThisAnswer(): EngineError {
  return new EngineError("INVALID_REQUEST", "continuation.tokens: can be no answer to this request.");
}
