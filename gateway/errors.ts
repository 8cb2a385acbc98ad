import type { Detail } from "./outcome.ts";

/**
 * The only error that crosses module boundaries, and the closed set of its codes.
 * A code is the `error.code` of Format A ("Errors" in formats/README.md); `formats/error-envelope.ts` has the HTTP
 * status and the `error.type` of every code in each envelope.
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
  | "previous_response_not_found"
  | "invalid_stream_id"
  | "websocket_stream_limit_reached"
  | "websocket_connection_limit_reached"
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

/** The error envelopes: `a` for chat, models and responses, `b` for messages and count_tokens. */
export const ENVELOPES = ["a", "b"] as const;

export type Envelope = (typeof ENVELOPES)[number];

/** A text for the caller: one for both envelopes, or one each because clients match on its words. */
export type Wording = string | Readonly<Record<Envelope, string>>;

/** Path of a field in a body: object keys and array indices, outermost first. */
export type FieldPath = readonly (string | number)[];

export type ApiErrorOptions = {
  /** The field at fault, rendered as `messages[0].role` in A and `messages.0.role` in B. */
  readonly path?: FieldPath;
  /** Index of the canonical message at fault, which the format maps to a field. */
  readonly promptMessage?: number;
  /** Retry delay in milliseconds from the creation of the error. */
  readonly retryAfterMs?: number;
  /** Sent as `x-should-retry`, which both official SDK families follow. */
  readonly shouldRetry?: boolean;
  /** Index of the tool at fault among those sent to the engine, which the format maps to a field. */
  readonly tool?: number;
  /** The exceeded budget of a rate limit, which sets the `error.type` of Format A. */
  readonly limit?: "requests" | "tokens";
  /** The `error.details` of Format B, which some SDKs evaluate. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Sent to gRPC callers as `ErrorInfo.metadata`. */
  readonly facts?: Readonly<Record<string, string>>;
  /** Token of `OUTCOMES` for log and statistics. Default: the error code. */
  readonly detail?: Detail;
  /** The original error; logged by its name, never sent. */
  readonly cause?: unknown;
};

/** A failure with a text for the caller. Any other error is answered without its text. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly wording: Wording;
  declare readonly path: FieldPath | undefined;
  declare readonly promptMessage: number | undefined;
  declare readonly retryAfterMs: number | undefined;
  declare readonly shouldRetry: boolean | undefined;
  declare readonly tool: number | undefined;
  declare readonly limit: ApiErrorOptions["limit"];
  declare readonly details: ApiErrorOptions["details"];
  declare readonly facts: ApiErrorOptions["facts"];
  readonly detail: Detail;

  constructor(code: ErrorCode, wording: Wording, { cause, detail = code, ...options }: ApiErrorOptions = {}) {
    super(typeof wording === "string" ? wording : wording.a, { cause });
    this.code = code;
    this.wording = wording;
    this.detail = detail;
    Object.assign(this, options);
  }

  /** Returns the same error with the field at fault, which is unknown at the place of the throw. */
  at(path: FieldPath): ApiError {
    const { code, wording, options, cause } = this;
    return new ApiError(code, wording, { ...options, path, cause });
  }

  /** All optional properties but the cause: plain data, which can be sent to another thread. */
  get options(): ApiErrorOptions {
    const { path, retryAfterMs, shouldRetry, tool, limit, details, facts, detail } = this;
    const given = Object.entries({ path, retryAfterMs, shouldRetry, tool, limit, details, facts, detail });
    return Object.fromEntries(given.filter(([, value]) => value !== undefined));
  }
}

/**
 * Makes the error for an answer whose engine was lost, silent or broke the protocol, according to `detail`. Its text is
 * part of the interface: agents retry a request whose stream ended in an error frame only if they find such words in
 * it.
 */
export function engineLost(detail: Detail, cause?: unknown): ApiError {
  const text = "Internal server error (connection reset): the engine stopped before the answer was complete.";
  return new ApiError("engine_unavailable", text, { detail, cause });
}

/** Returns a thrown `ApiError` itself, else a `server_error` without the text of the thrown value. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError("server_error", "The server had an error while processing your request.", {
    detail: "internal_error",
    cause: error,
  });
}
