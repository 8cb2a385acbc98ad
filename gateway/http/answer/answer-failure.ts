import { ApiError, type FieldPath, toApiError } from "../../errors.ts";
import { invalidSchema } from "../../formats/field-error.ts";
import { type FieldsAtFault, type Format, INSTRUCTIONS, type Places, WHOLE_PROMPT } from "../../formats/format.ts";
import type { RequestRecord } from "../record/request-record.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** An answer that has failed. */
export type FailedAnswer = {
  readonly record: RequestRecord;
  readonly format: Pick<Format, "fields">;
  /** Positions of tools and messages in the body of the request. */
  readonly places: Places;
  readonly answer: RunningAnswer;
};

/**
 * Records why an answer failed, and returns the error for the caller. `thrown` is the error that ended the answer;
 * `running` shows whether all answers were stopped.
 */
export function answerFailure(thrown: unknown, failed: FailedAnswer, running: RunningAnswers): ApiError {
  const { record, format, places, answer } = failed;
  const shown = ended(answer, running) ?? located(toApiError(thrown), format.fields, places);
  record.failed(shown.detail, answer.signal.aborted && !running.stopped && !answer.keyEnded);
  return shown;
}

/** Returns the error for an answer that this gateway ended; undefined if it did not. */
function ended({ keyEnded }: RunningAnswer, { stopped }: RunningAnswers): ApiError | undefined {
  if (keyEnded)
    return new ApiError("permission_denied", "The API key of this request was revoked.", { detail: "key_ended" });
  return stopped ? restarting() : undefined;
}

/** Makes the error for an answer that ends because this gateway stops. Agents recognize its text, and retry. */
export function restarting(): ApiError {
  return new ApiError(
    "server_is_overloaded",
    "Service unavailable (connection reset): the service is restarting. Please try again.",
    {
      detail: "drain_timeout",
      retryAfterMs: 1_000,
    },
  );
}

/** Returns an engine's refusal with the field of the format that it is about. */
export function located(error: ApiError, fields: FieldsAtFault, { toolPaths, messagePlaces }: Places): ApiError {
  if (error.path) return error;
  if (error.promptMessage !== undefined) {
    const place = messagePlaces ? (messagePlaces[error.promptMessage] ?? WHOLE_PROMPT) : error.promptMessage;
    if (place === INSTRUCTIONS) return error.at(fields.instructions);
    return error.at(place === WHOLE_PROMPT ? fields.prompt : [...fields.prompt, place]);
  }
  if (error.code === "context_length_exceeded") return error.at(fields.prompt);
  if (error.code === "invalid_json_schema") return unusableSchema(error, fields.outputSchema, "response");
  if (error.tool === undefined) return error;
  const tool = toolPaths ? toolPaths[error.tool] : ["tools", error.tool];
  if (error.code === "invalid_value") return error.at(tool ?? ["tools"]);
  return tool ? unusableSchema(error, [...tool, ...fields.toolSchema], "function") : error;
}

/** Returns an engine's refusal of a schema with the text of the gateway's own check. */
function unusableSchema(error: ApiError, path: FieldPath, of: "response" | "function"): ApiError {
  const { code, wording } = invalidSchema(path, error.message, of);
  return new ApiError(code, wording, { path, detail: error.detail, cause: error.cause });
}
