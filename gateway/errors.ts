import type { Detail } from "./outcome.ts";

/**
 * The one error that may cross a module boundary, and the closed set of its codes.
 *
 * A code is the `error.code` of Format A ("Errors" in formats/README.md); `formats/error-envelope.ts` says for every
 * code which HTTP status and which `error.type` each envelope gives it.
 */
export type ErrorCode =
  | "invalid_json"
  | "missing_required_parameter"
  | "invalid_type"
  | "integer_below_min_value"
  | "integer_above_max_value"
  | "decimal_below_min_value"
  | "decimal_above_max_value"
  | "string_above_max_length"
  | "array_above_max_length"
  | "empty_array"
  | "invalid_value"
  | "unsupported_parameter"
  | "unsupported_value"
  | "unknown_parameter"
  | "invalid_json_schema"
  | "invalid_function_parameters"
  | "context_length_exceeded"
  | "unknown_model"
  | "model_not_found"
  | "bad_request"
  | "invalid_api_key"
  | "permission_denied"
  | "unknown_url"
  | "method_not_allowed"
  | "upgrade_required"
  | "request_timeout"
  | "request_too_large"
  | "unsupported_media_type"
  | "expectation_failed"
  | "header_fields_too_large"
  | "rate_limit_exceeded"
  | "insufficient_quota"
  | "server_is_overloaded"
  | "upstream_error"
  | "engine_unavailable"
  | "timeout"
  | "server_error";

/** The two error envelopes: `a` for chat, models and responses, `b` for messages and count_tokens. */
export const ENVELOPES = ["a", "b"] as const;

/** One of the two error envelopes. */
export type Envelope = (typeof ENVELOPES)[number];

/** A text for the caller: one for both envelopes, or one each where real clients match on the wording. */
export type Wording = string | Readonly<Record<Envelope, string>>;

/** The path to the fault in a body: object keys and array indices, outermost first. */
export type FieldPath = readonly (string | number)[];

/** What an error may say beside its code and its words. */
export type ApiErrorOptions = {
  /**
   * The path to the field at fault, which is written as `messages[0].role` in A and `messages.0.role` in B. Default: no
   * field is named.
   */
  readonly path?: FieldPath;
  /**
   * The number of the canonical message at fault, for whoever knows which field of the body it came from. Default: no
   * message is named.
   */
  readonly promptMessage?: number;
  /** The time after which the caller may try again, in milliseconds from now. Default: the caller is not told. */
  readonly retryAfterMs?: number;
  /**
   * Whether the caller shall try again, sent as `x-should-retry`; both official SDK families obey it above their own
   * rules. Default: the caller is not told.
   */
  readonly shouldRetry?: boolean;
  /**
   * The place, from 0, of the tool that the error is about, among the tools that the engine was sent. Only the format
   * knows where that one stands in the body. Default: the error is about no tool.
   */
  readonly tool?: number;
  /** The budget that a rate limit is about; the `error.type` of Format A says so. */
  readonly limit?: "requests" | "tokens";
  /** The `error.details` of Format B, as some SDKs steer by it. Default: none. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** The facts for programs, which gRPC callers get as `ErrorInfo.metadata`. Default: none. */
  readonly facts?: Readonly<Record<string, string>>;
  /** The token of `OUTCOMES` that says what happened, for log and statistics. Default: the name of the code. */
  readonly detail?: Detail;
  /** The foreign error that this one was made from; logged by its name, never sent. */
  readonly cause?: unknown;
};

/** A failure with the words that the caller gets. Any other error that is thrown is answered without its text. */
export class ApiError extends Error {
  /** The code of the error, which decides about its status and type in each envelope. */
  readonly code: ErrorCode;
  /** The words for the caller. */
  readonly wording: Wording;
  /** The path to the field at fault; undefined where no field is named. */
  readonly path: FieldPath | undefined;
  /** The number of the canonical message at fault; undefined where none is named. */
  readonly promptMessage: number | undefined;
  /**
   * The time after which the caller may try again, in milliseconds from when the error was made; undefined where the
   * caller is not told.
   */
  readonly retryAfterMs: number | undefined;
  /** Whether the caller shall try again, which `x-should-retry` says; undefined where the caller is not told. */
  readonly shouldRetry: boolean | undefined;
  /** The place, from 0, among the tools that the engine was sent, of the one at fault; undefined for other errors. */
  readonly tool: number | undefined;
  /** The budget that a rate limit is about; undefined for errors that are about none. */
  readonly limit: "requests" | "tokens" | undefined;
  /** The `error.details` of Format B; undefined where there are none. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** The facts for programs of gRPC callers; undefined where there are none. */
  readonly facts: Readonly<Record<string, string>> | undefined;
  /** The token of what happened, for log and statistics; never sent. */
  readonly detail: Detail;

  constructor(code: ErrorCode, wording: Wording, options: ApiErrorOptions = {}) {
    super(typeof wording === "string" ? wording : wording.a, { cause: options.cause });
    this.name = "ApiError";
    this.code = code;
    this.wording = wording;
    this.path = options.path;
    this.promptMessage = options.promptMessage;
    this.retryAfterMs = options.retryAfterMs;
    this.shouldRetry = options.shouldRetry;
    this.tool = options.tool;
    this.limit = options.limit;
    this.details = options.details;
    this.facts = options.facts;
    this.detail = options.detail ?? code;
  }

  /** Returns the same error with the field at fault, for where it was thrown nobody could know the field. */
  at(path: FieldPath): ApiError {
    const { code, wording, options, cause } = this;
    return new ApiError(code, wording, { ...options, path, cause });
  }

  /** What the error says beside its code and its words, but for its cause: plain data, which can go to another thread. */
  get options(): ApiErrorOptions {
    const { path, retryAfterMs, shouldRetry, tool, limit, details, facts, detail } = this;
    const given = Object.entries({ path, retryAfterMs, shouldRetry, tool, limit, details, facts, detail });
    return Object.fromEntries(given.filter(([, value]) => value !== undefined));
  }
}

/**
 * Makes the error for an answer whose engine went away, fell silent or broke the protocol. `detail` says which. Its
 * words are part of the interface: agents repeat a request whose stream ended in an error frame only where they find
 * such words in it.
 */
export function engineLost(detail: Detail, cause?: unknown): ApiError {
  const text = "Internal server error (connection reset): the engine stopped before the answer was complete.";
  return new ApiError("engine_unavailable", text, { detail, cause });
}

/**
 * Returns an `ApiError` for whatever was thrown: itself if it is one, else a `server_error` without the text of what
 * was thrown.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError("server_error", "The server had an error while processing your request.", {
    detail: "internal_error",
    cause: error,
  });
}
