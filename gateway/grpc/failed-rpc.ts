import { status } from "@grpc/grpc-js";
import {
  type EndingStatus,
  type FailedCall,
  failedCall,
  saysUnreadable,
} from "../../deploy/runtime/grpc/status-details.ts";
import { ApiError, type ErrorCode } from "../errors.ts";
import { bracketPath, messageOf } from "../formats/error-envelope.ts";
import type { Detail } from "../outcome.ts";

type Row = readonly [code: status, reason: string];

const INVALID: Row = [status.INVALID_ARGUMENT, "INVALID_REQUEST"];
const UNSUPPORTED: Row = [status.INVALID_ARGUMENT, "UNSUPPORTED_FEATURE"];
const SCHEMA: Row = [status.INVALID_ARGUMENT, "INVALID_SCHEMA"];
const NOT_SERVED: Row = [status.NOT_FOUND, "MODEL_NOT_SERVED"];
const UNIMPLEMENTED: Row = [status.UNIMPLEMENTED, "UNIMPLEMENTED"];
const ENGINE_DOWN: Row = [status.UNAVAILABLE, "ENGINE_DOWN"];

/**
 * Status and reason of every error code: the same as a node's for the same error, and own reasons for errors that only
 * a gateway has. A code without a row does not compile.
 */
const ROWS: Readonly<Record<ErrorCode, Row>> = {
  invalid_json: INVALID,
  missing_required_parameter: INVALID,
  invalid_type: INVALID,
  integer_below_min_value: INVALID,
  integer_above_max_value: INVALID,
  decimal_below_min_value: INVALID,
  decimal_above_max_value: INVALID,
  string_above_max_length: INVALID,
  array_above_max_length: INVALID,
  empty_array: INVALID,
  invalid_value: INVALID,
  unsupported_parameter: UNSUPPORTED,
  unsupported_value: UNSUPPORTED,
  unknown_parameter: INVALID,
  invalid_json_schema: SCHEMA,
  invalid_function_parameters: SCHEMA,
  context_length_exceeded: [status.OUT_OF_RANGE, "CONTEXT_WINDOW_EXCEEDED"],
  unknown_model: NOT_SERVED,
  model_not_found: NOT_SERVED,
  bad_request: INVALID,
  invalid_api_key: [status.UNAUTHENTICATED, "API_KEY_INVALID"],
  permission_denied: [status.PERMISSION_DENIED, "CALLER_NOT_ALLOWED"],
  unknown_url: UNIMPLEMENTED,
  method_not_allowed: UNIMPLEMENTED,
  upgrade_required: UNIMPLEMENTED,
  request_timeout: [status.DEADLINE_EXCEEDED, "DEADLINE"],
  request_too_large: [status.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"],
  unsupported_media_type: INVALID,
  expectation_failed: INVALID,
  header_fields_too_large: INVALID,
  rate_limit_exceeded: [status.RESOURCE_EXHAUSTED, "RATE_LIMIT_EXCEEDED"],
  insufficient_quota: [status.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"],
  server_is_overloaded: [status.UNAVAILABLE, "OVERLOADED"],
  upstream_error: ENGINE_DOWN,
  engine_unavailable: ENGINE_DOWN,
  timeout: [status.DEADLINE_EXCEEDED, "DEADLINE"],
  server_error: [status.INTERNAL, "GATEWAY_ERROR"],
};

/** Reasons that are more specific than the error code. */
const REASON_OF: Readonly<Partial<Record<Detail, string>>> = {
  drain_timeout: "DRAINING",
};

/** Returns an error as the status of a call, with the field at fault and the retry delay, if known. */
export function failedRpc(error: ApiError): FailedCall {
  const [code, reason] = ROWS[error.code];
  return failedCall({
    code,
    message: messageOf(error, "a"),
    reason: REASON_OF[error.detail] ?? reason,
    facts: error.facts ?? {},
    retryAfterMs: error.retryAfterMs,
    field: error.path && bracketPath(error.path),
  });
}

/**
 * Returns the error for a status that grpc-js raised, for example for a message that is too large or cannot be decoded.
 */
export function raisedError(ended: EndingStatus): ApiError {
  if (saysUnreadable(ended))
    return new ApiError("bad_request", "The request cannot be read.", { detail: "grpc_raised" });
  switch (ended.code) {
    case status.DEADLINE_EXCEEDED:
      // The caller set the deadline: the call ends as a cancelled one.
      return new ApiError("timeout", "The deadline of the call has passed.", {
        detail: "downstream_remote_disconnect",
      });
    case status.RESOURCE_EXHAUSTED:
      return new ApiError("request_too_large", "The message is larger than this service takes.");
    case status.UNIMPLEMENTED:
      return new ApiError("unknown_url", "This service does not know this method, or not this way of calling it.");
    case status.NOT_FOUND:
      return new ApiError("model_not_found", "This service has nothing of this name.");
    default:
      return new ApiError("server_error", "The server had an error while processing your request.", {
        detail: "grpc_raised",
      });
  }
}
