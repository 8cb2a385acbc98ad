import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Metadata, type ServerInterceptingCallInterface, status } from "@grpc/grpc-js";
import {
  type EndingStatus,
  type FailedCall,
  failedCall,
  saysUnreadable,
} from "../../deploy/runtime/grpc/status-details.ts";
import { ApiError, type ErrorCode } from "../errors.ts";
import { bracketPath, messageOf, statusOf } from "../formats/error-envelope.ts";
import type { LimitedRequest } from "../http/access/rate-limit.ts";
import type { ReplyUnderWay } from "../http/record/request-context.ts";
import type { RequestRecord } from "../http/record/request-record.ts";
import type { Detail } from "../outcome.ts";
import type { InflightBody } from "../overload/body-budget.ts";

/** A call of a gRPC client, as its method and the hooks at its end see it. */
export class RpcCall implements ReplyUnderWay {
  readonly record: RequestRecord;
  /** Headers of the call in the form of Node's HTTP headers. */
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
  /** The message's share of the budget for bodies in flight; undefined until the call has passed its key's limits. */
  body: InflightBody | undefined;
  /** The call with the limits of its key; undefined until the key is authenticated. */
  limited: LimitedRequest | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #call: ServerInterceptingCallInterface;
  readonly #metadata = new Metadata();
  /** Bytes of sent messages. */
  bytesOut = 0;
  #committed = false;
  #error: ApiError | undefined;
  #ended: EndingStatus | undefined;
  #raised = false;
  #sentMetadata = false;

  constructor(
    { record, headers, address }: Pick<RpcCall, "record" | "headers" | "address">,
    call: ServerInterceptingCallInterface,
    stream: ServerHttp2Stream,
  ) {
    this.record = record;
    this.headers = headers;
    this.address = address;
    this.#call = call;
    this.#stream = stream;
    this.addMetadata({ "x-request-id": record.requestId });
  }

  /** Whether the reply cannot be delivered any more. */
  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Whether a message or the status of the call has been sent. */
  get headersSent(): boolean {
    return this.#committed || (this.#ended !== undefined && !this.#raised);
  }

  /** Status of the reply in HTTP terms: 200 once a message of an answer was sent. */
  get statusCode(): number {
    return this.#committed || !this.#error ? 200 : statusOf(this.#error, "a");
  }

  /** Whether the server ended the call, not its caller. */
  get writableFinished(): boolean {
    return this.#ended !== undefined && !this.#raised;
  }

  /** Name of the final status; CANCELLED if none was sent. */
  get grpcStatus(): string {
    return status[this.#ended?.code ?? status.CANCELLED] ?? "UNKNOWN";
  }

  /** Calls `listener` once, when the call has ended or its caller has cancelled it. */
  on(event: "close", listener: () => void): unknown {
    return this.#stream.on(event, listener);
  }

  /** Adds metadata that is sent before the first message, or with the status. */
  addMetadata(headers: Readonly<Record<string, string | number>>): void {
    for (const [name, value] of Object.entries(headers)) this.#metadata.set(name, String(value));
  }

  /** Counts a message that is about to be sent; `commits` marks the answer as committed. */
  writes(bytes: number, commits: boolean): void {
    if (!this.#sentMetadata) this.#call.sendMetadata(this.#metadata);
    this.#sentMetadata = true;
    this.bytesOut += bytes;
    this.#committed ||= commits;
  }

  /** Ends the call with an error before its method runs. */
  refuse(error: ApiError): void {
    this.#call.sendStatus(this.failure(error));
  }

  /** Returns the status with which the call fails, and records the error. */
  failure(error: ApiError): FailedCall {
    this.record.refused(error.detail);
    this.#error ??= error;
    const failed = failedRpc(error);
    if (!this.#sentMetadata) failed.metadata.merge(this.#metadata);
    return failed;
  }

  /** Records the status with which the call ends; `raised` is true if grpc-js set it. */
  ends(ended: EndingStatus, raised: boolean): void {
    // A status cannot reach a caller that has left.
    if (this.#ended || this.destroyed) return;
    this.#ended = ended;
    this.#raised = raised;
  }

  /** Closes the connection of the call after its open calls have ended. */
  endConnection(): void {
    this.#stream.session?.close();
  }

  /** Resets the call: pending messages are dropped. */
  cut(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }
}

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
  previous_response_not_found: INVALID,
  invalid_stream_id: INVALID,
  websocket_stream_limit_reached: INVALID,
  websocket_connection_limit_reached: INVALID,
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

/** Returns the error for a status that grpc-js raised, such as for a message that is too large or cannot be decoded. */
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
