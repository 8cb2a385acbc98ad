import { type ServiceError, status } from "@grpc/grpc-js";
import { durationMs } from "../../../deploy/runtime/time/clock.ts";
import { ErrorInfo, RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { ApiError, type ErrorCode, engineLost, toApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";
import { MAX_REPLY_BYTES } from "../endpoint/endpoint.ts";
import type { CallEnding } from "../endpoint/outlier-detector.ts";
import type { Expired } from "./attempt-timeouts.ts";

const DOMAIN = "svc.inference";
const TYPE_PREFIX = "type.googleapis.com/google.rpc.";

export type UpstreamFailure = {
  /** The error that the caller gets, unless another endpoint succeeds. */
  readonly error: ApiError;
  /** Whether another endpoint may succeed, as long as no delta has been passed on. */
  readonly retriable: boolean;
  readonly ending: CallEnding;
  /** How long the endpoint worked on the call, in milliseconds; undefined where that is not to blame. */
  readonly workedMs?: number | undefined;
  /** Whether the request stood in the endpoint's queue, so that its loss is not due to it. Default: false. */
  readonly waited?: boolean;
  /** Whether the endpoint was to continue an answer and sent a different one. Default: false. */
  readonly otherAnswer?: boolean;
  /** Whether the endpoint does not have the messages that were left out. Default: false. */
  readonly lacksBase?: boolean;
  /** Whether the endpoint cannot take the prompt that another has read, and read none itself. Default: false. */
  readonly handOverLost?: boolean;
  /** Whether the endpoint has other tokens for the prompt than the one that began the answer. Default: false. */
  readonly otherPrompt?: boolean;
  /** Whether the request ordered the loss: the endpoint, which lives, is not to continue the answer. Default: false. */
  readonly ordered?: boolean;
};

/**
 * Converts a gRPC failure. Texts of the engine or of the library are not passed on: they may name hosts. `accepted`:
 * the endpoint had sent a message on this call.
 */
export function fromGrpc(cause: ServiceError, accepted: boolean): UpstreamFailure {
  const info = errorInfo(cause);
  const said = { kind: "status", code: cause.code, notReady: false } as const;
  const notReady = { ...said, notReady: true };
  switch (info?.reason) {
    case "CONTEXT_WINDOW_EXCEEDED":
      return final(
        contextExceeded(wholeNumber(info.metadata.input_tokens), wholeNumber(info.metadata.context_window), cause),
        said,
      );
    case "INVALID_SCHEMA":
      return final(unusableSchema(info, cause), said);
    case "UNSUPPORTED_FEATURE": {
      const text = "The model does not support what the request asks for.";
      return final(refused("unsupported_value", text, "engine_unsupported_feature", cause), said);
    }
    case "INVALID_REQUEST":
      return final(cannotProcess(cause, info), said);
    case "QUEUE_FULL":
      return elsewhere(overloaded("upstream_queue_full", retryAfterMs(cause), cause), notReady);
    case "DRAINING":
      return elsewhere(overloaded("upstream_draining", undefined, cause), notReady);
    case "MODEL_LOADING":
      return elsewhere(overloaded("upstream_loading", undefined, cause), notReady);
    case "REVISION_MISMATCH":
      return { ...elsewhere(engineLost("upstream_other_revision", cause), notReady), otherPrompt: true };
    case "PREFIX_UNKNOWN":
      return { ...elsewhere(engineLost("upstream_prefix_unknown", cause), said), lacksBase: true };
    case "HAND_OVER_LOST":
      return { ...elsewhere(engineLost("upstream_hand_over_lost", cause), said), handOverLost: true };
    case "MODEL_NOT_SERVED":
      return elsewhere(overloaded("upstream_model_not_served", undefined, cause), { kind: "version_mismatch" });
    case "ENGINE_ABORTED":
      return elsewhere(engineLost("upstream_aborted", cause), said);
    case "PROTOCOL_VIOLATION":
      return protocolViolation(cause);
    default:
      return byStatus(cause, info !== undefined, accepted);
  }
}

/**
 * Converts the status of a call. `said` is true where the node itself ended the call, with a reason; otherwise grpc-js
 * did, for example after losing the connection.
 */
function byStatus(cause: ServiceError, said: boolean, accepted: boolean): UpstreamFailure {
  const ending = { kind: "status", code: cause.code, notReady: false } as const;
  switch (cause.code) {
    case status.UNAVAILABLE:
      if (said) return elsewhere(engineLost("upstream_reset", cause), ending);
      // Whether a request that was never accepted caused the failure is unknown.
      return accepted
        ? elsewhere(engineLost("upstream_reset", cause), { kind: "reset" })
        : elsewhere(engineLost("upstream_connect_failure", cause), { kind: "connect_failure" });
    case status.DEADLINE_EXCEEDED: {
      const text = "The request took longer than the service allows.";
      return final(refused("timeout", text, "upstream_timeout", cause), { kind: "cancelled" });
    }
    case status.RESOURCE_EXHAUSTED: {
      // Only the text of grpc-js distinguishes these; the limit in it is that of the side which refused the message.
      if (cause.details.endsWith(` vs ${MAX_REPLY_BYTES})`)) return protocolViolation(cause);
      const fullForMs = retryAfterMs(cause);
      if (fullForMs !== undefined || cause.details.startsWith("Bandwidth exhausted"))
        return elsewhere(overloaded("upstream_queue_full", fullForMs, cause), { ...ending, notReady: true });
      // A message above the node's limit: no other endpoint would take it.
      const text = "The request is too large for the model's engine.";
      return final(refused("request_too_large", text, "upstream_message_too_large", cause), ending);
    }
    case status.INVALID_ARGUMENT:
      return final(cannotProcess(cause), ending);
    default:
      return elsewhere(engineLost("upstream_internal", cause), ending);
  }
}

/** The failure of a stream that broke the order of events, ended without `finished`, or sent a malformed message. */
export function protocolViolation(cause?: ServiceError): UpstreamFailure {
  return elsewhere(engineLost("upstream_protocol_error", cause), { kind: "protocol_violation" });
}

/** The failure of a call that continued an answer with a different one; which engine is to blame is unknown. */
export function otherAnswer(): UpstreamFailure {
  return { ...final(engineLost("upstream_other_answer"), { kind: "cancelled" }), otherAnswer: true };
}

/** The failure of a call that its request ordered to be lost; the endpoint is not to blame. */
export function lostOnOrder(): UpstreamFailure {
  return { ...elsewhere(engineLost("upstream_lost_on_order"), { kind: "cancelled" }), ordered: true };
}

const EXPIRED_DETAIL: Readonly<Record<Expired, Detail>> = {
  hand_over: "upstream_hand_over_timeout",
  connect: "upstream_connect_failure",
  accept: "upstream_accept_timeout",
  per_try: "upstream_per_try_timeout",
  idle: "upstream_per_try_idle_timeout",
  inter_token: "upstream_inter_token_timeout",
};

/** Returns the failure of a call on an endpoint that went silent, or never connected. */
export function stalled(limit: Exclude<Expired, "hand_over">): UpstreamFailure {
  const kind = limit === "connect" ? "connect_failure" : "stalled";
  return elsewhere(engineLost(EXPIRED_DETAIL[limit]), { kind });
}

/**
 * Returns the failure of a call whose endpoint never received the whole request, and is not to blame: this process or
 * the network is overloaded. A big request would load another connection as well. A small one can be retried: grpc-js
 * may keep a connection that has sent malformed data, and Node 20 does not report that it takes nothing.
 */
export function notHandedOver(isBig: boolean): UpstreamFailure {
  const failure = final(overloaded(EXPIRED_DETAIL.hand_over, undefined), { kind: "cancelled" });
  return { ...failure, retriable: !isBig };
}

/** Returns the failure of a call that an internal error of the gateway ended during the answer. */
export function ourFault(thrown: unknown): UpstreamFailure {
  return final(toApiError(thrown), { kind: "cancelled" });
}

/** Returns the name of the call's gRPC status. A call that the gateway ended was cancelled, for any reason. */
export function grpcStatusOf({ error: { cause } }: UpstreamFailure): string {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return (typeof code === "number" && status[code]) || "CANCELLED";
}

function refused(code: ErrorCode, text: string, detail: Detail, cause: unknown): ApiError {
  return new ApiError(code, text, { detail, cause });
}

const REFUSED_FOR: Readonly<Record<string, string>> = {
  system_message: "where a system message stands",
  turns: "the order of roles",
  calls: "a tool call or its result",
  images: "an image",
};

/**
 * Returns the error for a request that the model cannot process. The engine names the message and the reason: in words
 * that it found in the model's own chat template, or by one of a few names.
 */
function cannotProcess(cause: unknown, info?: ErrorInfo): ApiError {
  const { field = "", template_says: says = "", about = "" } = info?.metadata ?? {};
  const message = /^messages\[(\d{1,9})\]/.exec(field)?.[1];
  const tool = /^tools\[(\d{1,4})\]/.exec(field)?.[1];
  const options = {
    ...(message !== undefined && { promptMessage: Number(message) }),
    ...(tool !== undefined && { tool: Number(tool) }),
  };
  const detail = field === "" && about === "" ? "engine_invalid_request" : "engine_prompt_refused";
  const why = Object.hasOwn(REFUSED_FOR, about) ? `: it is about ${REFUSED_FOR[about]}` : templateWords(field, says);
  return new ApiError("invalid_value", `The model cannot process this request${why}.`, { ...options, detail, cause });
}

function templateWords(field: string, says: string): string {
  if (field === "") return "";
  const words = /^[A-Za-z0-9 ,;:!?'"()_./-]{1,200}$/.test(says) ? ` ("${says.replace(/[.!]+$/, "")}")` : "";
  return `: its chat template does not take this${words}`;
}

/** Returns the error for a request that no endpoint can take now. */
export function overloaded(detail: Detail, retryAfterMs: number | undefined, cause?: unknown): ApiError {
  const text = "The model is not available or overloaded at the moment. Please try again later.";
  return new ApiError("server_is_overloaded", text, {
    detail,
    cause,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

export function contextExceeded(tokens: number | string, window: number | string, cause?: unknown): ApiError {
  return new ApiError(
    "context_length_exceeded",
    {
      a: `This model's maximum context length is ${window} tokens. However, your messages resulted in ${tokens} tokens (prompt is too long: ${tokens} tokens > ${window} maximum). Please reduce the length of the messages.`,
      b: `prompt is too long: ${tokens} tokens > ${window} maximum`,
    },
    {
      detail: "context_length_exceeded",
      facts: { input_tokens: String(tokens), context_window: String(window) },
      cause,
    },
  );
}

function wholeNumber(text: string | undefined): string {
  return text !== undefined && /^\d{1,15}$/.test(text) ? text : "unknown";
}

/** Returns the error for a schema that the engine cannot use: of the tool that it names, else of the answer. */
function unusableSchema(info: ErrorInfo, cause: unknown): ApiError {
  const field = /^tools(?:\[(\d{1,4})\]|\.(\d{1,4}))?(?:\.|$)/.exec(info.metadata.field ?? "");
  const text = schemaWording(info);
  const detail = "engine_invalid_schema";
  if (!field) return new ApiError("invalid_json_schema", text, { detail, cause });
  const place = field[1] ?? field[2];
  return new ApiError("invalid_function_parameters", text, {
    detail,
    cause,
    ...(place !== undefined && { tool: Number(place) }),
  });
}

/**
 * Returns the words for a schema that the engine cannot use, from the facts that it gives: the position in the schema,
 * as a pointer without caller text.
 */
function schemaWording({ metadata: { pointer, fault, max_bytes: maxBytes } }: ErrorInfo): string {
  const where = pointer && /^[A-Za-z0-9_$/~.-]{1,256}$/.test(pointer) ? ` at ${pointer}` : "";
  if (maxBytes !== undefined && /^\d{1,12}$/.test(maxBytes))
    return `the JSON Schema is larger than ${maxBytes} bytes, the most that an answer can be held to.`;
  if (fault === "costly") return `the JSON Schema${where} is too complex to hold an answer to it.`;
  if (fault === "not_enforceable") return `the keyword${where} cannot be enforced, which 'strict' asks for.`;
  return `the JSON Schema cannot be used${where}.`;
}

function errorInfo(cause: ServiceError): ErrorInfo | undefined {
  const info = packed(cause, "ErrorInfo", ErrorInfo.decode);
  return info?.domain === DOMAIN ? info : undefined;
}

/** Returns when the node expects to have capacity again, in milliseconds from now; undefined if not reported. */
function retryAfterMs(cause: ServiceError): number | undefined {
  const delay = packed(cause, "RetryInfo", RetryInfo.decode)?.retryDelay;
  return delay && durationMs(delay);
}

function packed<Message>(
  cause: ServiceError,
  name: string,
  decode: (bytes: Uint8Array) => Message,
): Message | undefined {
  const bytes = cause.metadata?.get("grpc-status-details-bin")[0];
  if (!(bytes instanceof Uint8Array)) return undefined;
  try {
    const any = Status.decode(bytes).details.find(({ typeUrl }) => typeUrl === `${TYPE_PREFIX}${name}`);
    return any && decode(any.value);
  } catch {
    // Not a google.rpc.Status: the status code alone decides.
    return undefined;
  }
}

function final(error: ApiError, ending: CallEnding): UpstreamFailure {
  return { error, retriable: false, ending };
}

function elsewhere(error: ApiError, ending: CallEnding): UpstreamFailure {
  return { error, retriable: true, ending };
}
