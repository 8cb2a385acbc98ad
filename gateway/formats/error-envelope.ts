import type { ApiError, Envelope, ErrorCode, FieldPath } from "../errors.ts";

/** The HTTP status of an error code, and its `error.type` in the envelopes A and B. */
export type ErrorAnswer = {
  readonly status: number;
  readonly a: string;
  /** The `error.code` of Format A where it is not the error code's own name. */
  readonly aCode?: string;
  readonly b: string;
  /** The HTTP status of the error in Format B if it differs, as overload is 529 there. */
  readonly bStatus?: number;
};

const invalid = { status: 400, a: "invalid_request_error", b: "invalid_request_error" } as const;

/** The answer to every error code: a code without an answer in both envelopes does not compile. */
export const ERROR_ANSWERS: Readonly<Record<ErrorCode, ErrorAnswer>> = {
  invalid_json: invalid,
  missing_required_parameter: invalid,
  invalid_type: invalid,
  integer_below_min_value: invalid,
  integer_above_max_value: invalid,
  decimal_below_min_value: invalid,
  decimal_above_max_value: invalid,
  string_above_max_length: invalid,
  array_above_max_length: invalid,
  empty_array: invalid,
  invalid_value: invalid,
  unsupported_parameter: invalid,
  unsupported_value: invalid,
  unknown_parameter: invalid,
  invalid_json_schema: invalid,
  invalid_function_parameters: invalid,
  context_length_exceeded: invalid,
  unknown_model: { ...invalid, aCode: "model_not_found" },
  model_not_found: { status: 404, a: "invalid_request_error", b: "not_found_error" },
  bad_request: invalid,
  invalid_api_key: { status: 401, a: "invalid_request_error", b: "authentication_error" },
  permission_denied: { status: 403, a: "permission_error", b: "permission_error" },
  unknown_url: { status: 404, a: "invalid_request_error", b: "not_found_error" },
  method_not_allowed: { status: 405, a: "invalid_request_error", b: "invalid_request_error" },
  upgrade_required: { status: 426, a: "invalid_request_error", b: "invalid_request_error" },
  previous_response_not_found: invalid,
  invalid_stream_id: invalid,
  websocket_stream_limit_reached: invalid,
  websocket_connection_limit_reached: invalid,
  request_timeout: { status: 408, a: "invalid_request_error", b: "timeout_error" },
  request_too_large: { status: 413, a: "invalid_request_error", b: "request_too_large" },
  unsupported_media_type: { status: 415, a: "invalid_request_error", b: "invalid_request_error" },
  expectation_failed: { status: 417, a: "invalid_request_error", b: "invalid_request_error" },
  header_fields_too_large: { status: 431, a: "invalid_request_error", b: "invalid_request_error" },
  rate_limit_exceeded: { status: 429, a: "requests", b: "rate_limit_error" },
  insufficient_quota: { status: 429, a: "insufficient_quota", b: "rate_limit_error" },
  server_is_overloaded: { status: 503, a: "server_error", b: "overloaded_error", bStatus: 529 },
  upstream_error: { status: 502, a: "server_error", b: "api_error" },
  engine_unavailable: { status: 502, a: "server_error", b: "api_error" },
  timeout: { status: 504, a: "server_error", b: "timeout_error" },
  server_error: { status: 500, a: "server_error", b: "api_error" },
};

export function statusOf(error: ApiError, envelope: Envelope): number {
  const row = ERROR_ANSWERS[error.code];
  return envelope === "b" ? (row.bStatus ?? row.status) : row.status;
}

export function messageOf(error: ApiError, envelope: Envelope): string {
  return typeof error.wording === "string" ? error.wording : error.wording[envelope];
}

/** Writes a path in the syntax of Format A, such as `messages[0].content[1].type`. */
export function bracketPath(path: FieldPath): string {
  return path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : text === "" ? step : `${text}.${step}`),
    "",
  );
}

/** Writes a path in the syntax of Format B, such as `messages.0.content.1.type`. */
export function dottedPath(path: FieldPath): string {
  return path.join(".");
}

export function errorObjectA(error: ApiError) {
  const row = ERROR_ANSWERS[error.code];
  return {
    message: messageOf(error, "a"),
    type: error.code === "rate_limit_exceeded" ? (error.limit ?? row.a) : row.a,
    param: error.path ? bracketPath(error.path) : null,
    code: row.aCode ?? error.code,
  };
}

export function errorBodyB(error: ApiError, requestId: string) {
  return {
    type: "error" as const,
    error: {
      type: ERROR_ANSWERS[error.code].b,
      message: messageOf(error, "b"),
      ...(error.details && { details: error.details }),
    },
    request_id: requestId,
  };
}

export function errorBody(error: ApiError, envelope: Envelope, requestId: string): object {
  return envelope === "a" ? { error: errorObjectA(error) } : errorBodyB(error, requestId);
}
