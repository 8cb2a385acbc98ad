import { ApiError, toApiError } from "../../errors.ts";
import type { Format } from "../../formats/format.ts";
import type { RequestRecord } from "../record/request-record.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** An answer that has failed: what it answered, and who else may have ended it. */
export type FailedAnswer = {
  /** The record of the request. */
  readonly record: RequestRecord;
  /** The format in which the caller is answered. */
  readonly format: Format;
  /** The answer that has failed. */
  readonly answer: RunningAnswer;
  /** The answers under way, which know whether they were told to stop. */
  readonly running: RunningAnswers;
};

/**
 * Records why an answer failed, and returns the error that the caller shall see. `thrown` is whatever ended the answer.
 */
export function answerFailure(thrown: unknown, { record, format, answer, running }: FailedAnswer): ApiError {
  const shown = running.stopped ? restarting() : located(toApiError(thrown), format);
  record.failed(shown.detail, answer.signal.aborted && !running.stopped);
  return shown;
}

/** Makes the error for an answer that has to end because this gateway does. Agents look for its words, and repeat. */
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
function located(error: ApiError, { fields }: Format): ApiError {
  if (error.path) return error;
  if (error.code === "context_length_exceeded") return error.at(fields.prompt);
  return error.code === "invalid_json_schema" ? error.at(fields.outputSchema) : error;
}
