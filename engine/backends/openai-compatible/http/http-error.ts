import { EngineError, type ErrorReason } from "../../../errors.ts";
import { asCount, asFields, asText, type JsonFields, parseFields } from "./json-fields.ts";

/** A failure as an engine reports it. Its text may repeat caller input: it is inspected, never passed on. */
export type EngineFault = {
  /** The HTTP status; 0 if there is none. */
  readonly status: number;
  /** The engine's name for the kind of failure; may be empty. */
  readonly type: string;
  readonly text: string;
  /** The tokens of a prompt that is too long; undefined if not reported. */
  readonly inputTokens: number | undefined;
  readonly contextWindow: number | undefined;
};

const REASON_OF_STATUS: Readonly<Record<number, ErrorReason>> = {
  400: "INVALID_REQUEST",
  404: "MODEL_NOT_SERVED",
  408: "ENGINE_DOWN",
  413: "INVALID_REQUEST",
  422: "INVALID_REQUEST",
  429: "QUEUE_FULL",
  499: "ENGINE_ABORTED",
  500: "ENGINE_ERROR",
  501: "UNSUPPORTED_FEATURE",
  502: "ENGINE_DOWN",
  503: "ENGINE_DOWN",
  504: "ENGINE_DOWN",
};

/** The status of failures that name a kind but no status. */
const STATUS_OF_TYPE: Readonly<Record<string, number>> = {
  badrequesterror: 400,
  invalid_request_error: 400,
  exceed_context_size_error: 400,
  notfounderror: 404,
  not_found_error: 404,
  not_supported_error: 501,
  notimplementederror: 501,
  unavailable_error: 503,
  serviceunavailableerror: 503,
};

const MESSAGE: Readonly<Partial<Record<ErrorReason, string>>> = {
  INVALID_REQUEST: "The engine refuses the request.",
  INVALID_SCHEMA: "The engine cannot use the JSON schema.",
  CONTEXT_WINDOW_EXCEEDED: "The prompt is longer than the model's context window.",
  MODEL_NOT_SERVED: "The engine does not serve the model.",
  MODEL_LOADING: "The engine is still loading the model.",
  QUEUE_FULL: "The engine's queue is full.",
  UNSUPPORTED_FEATURE: "The engine does not support what the request asks for.",
  ENGINE_ABORTED: "The engine gave the request up.",
  ENGINE_DOWN: "The engine is not available.",
};

/** The causes for which engines reject a conversation, by the wording of their templates and checks. */
const REFUSED_FOR: readonly (readonly [about: string, text: RegExp])[] = [
  ["images", /\bimages?\b|multi-?modal/i],
  ["system_message", /system (?:message|role|prompt)|\brole\b.{0,20}system/i],
  ["turns", /alternat/i],
  ["calls", /tool.?calls?\b|tool_call_id|function.?call/i],
];

const CONTEXT_TEXT = /context (?:length|window|size)|context_length|max_model_len|longer than the model/i;
const SCHEMA_TEXT = /json.?schema|grammar|xgrammar|guidance|outlines|structured.?output|regex/i;
const QUEUE_TEXT = /queue/i;
const LOADING_TEXT = /loading|starting|warm/i;

/** The wordings in which engines report the window, and the prompt size. */
const WINDOW_NUMBER = [
  /context (?:length|window|size)(?: (?:is|of|is only|limit of))? \(?(\d+)/i,
  /max_model_len[^\d]{0,20}(\d+)/i,
];
const INPUT_NUMBER = [
  /(\d+) (?:input )?tokens? (?:from|in) the (?:input )?messages/i,
  /\((\d+) in the messages/i,
  /input \((\d+) tokens\)/i,
  /passed (\d+) input tokens/i,
  /(?:contains|contained|resulted in|has|prompt of|at least) (\d+) (?:input |prompt )?tokens/i,
  /request \((\d+) tokens\)/i,
];

/** Reads the failure in a reply or in a stream event; undefined if there is none. `status` is that of the reply. */
export function readFault(fields: JsonFields, status = 0): EngineFault | undefined {
  const isOld = fields.object === "error";
  if (!isOld && (fields.error === undefined || fields.error === null)) return undefined;
  const error = isOld ? fields : asFields(fields.error);
  const type = asText(error.type);
  const text = asText(fields.error) || asText(error.message);
  const code = asCount(error.code) ?? 0;
  return {
    status: code >= 400 && code < 600 ? code : status || (STATUS_OF_TYPE[type.toLowerCase()] ?? 0),
    type,
    text,
    inputTokens: asCount(error.n_prompt_tokens) ?? firstNumber(text, INPUT_NUMBER),
    contextWindow: asCount(error.n_ctx) ?? firstNumber(text, WINDOW_NUMBER),
  };
}

export function faultOfReply(status: number, body: string): EngineFault {
  const fields = parseFields(body);
  const fault = fields && (readFault(fields, status) ?? readFault({ error: { message: messageOf(fields) } }, status));
  const none = { type: "", text: "", inputTokens: undefined, contextWindow: undefined };
  // The status line is the decision of the engine's server; a code inside may be of another kind.
  return { ...(fault ?? none), status };
}

/** Converts a failure to an error with this service's own message. */
export function toEngineFault(fault: EngineFault): EngineError {
  const reason = reasonOf(fault);
  const facts: Record<string, string> = {};
  if (reason === "CONTEXT_WINDOW_EXCEEDED") {
    if (fault.inputTokens !== undefined) facts.input_tokens = String(fault.inputTokens);
    if (fault.contextWindow !== undefined) facts.context_window = String(fault.contextWindow);
  }
  if (reason === "INVALID_REQUEST") {
    const about = REFUSED_FOR.find(([, text]) => text.test(fault.text))?.[0];
    if (about !== undefined) facts.about = about;
  }
  const message = MESSAGE[reason] ?? "The engine had an error while processing the request.";
  return new EngineError(reason, message, facts);
}

function reasonOf({ status, type, text }: EngineFault): ErrorReason {
  const reason = REASON_OF_STATUS[status] ?? (status >= 500 || status === 0 ? "ENGINE_ERROR" : "INVALID_REQUEST");
  if (status === 401 || status === 403) return "ENGINE_ERROR";
  if (reason === "INVALID_REQUEST") {
    if (type === "exceed_context_size_error" || CONTEXT_TEXT.test(text)) return "CONTEXT_WINDOW_EXCEEDED";
    if (SCHEMA_TEXT.test(text)) return "INVALID_SCHEMA";
  }
  if (status === 503 && QUEUE_TEXT.test(text)) return "QUEUE_FULL";
  if (status === 503 && LOADING_TEXT.test(text)) return "MODEL_LOADING";
  return reason;
}

/** FastAPI's own errors have `detail`, and some servers put `message` at the top level. */
function messageOf(fields: JsonFields): string {
  return asText(fields.message) || (fields.detail === undefined ? "" : JSON.stringify(fields.detail));
}

function firstNumber(text: string, patterns: readonly RegExp[]): number | undefined {
  for (const pattern of patterns) {
    const found = pattern.exec(text)?.[1];
    if (found !== undefined) return asCount(Number(found));
  }
  return undefined;
}
