import { FinishReason, type GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";

export type OutputLimit = {
  /** The most tokens of the answer, at least 1. */
  readonly maxOutputTokens: number;
  /** The finish reason of an answer of that length. */
  readonly limitReason: FinishReason;
};

/** Returns the output limit of a request; undefined without one. Throws `EngineError` INVALID_REQUEST below 1. */
export function askedOutputTokens({ maxOutputTokens }: GenerateRequest): number | undefined {
  if (maxOutputTokens === undefined || maxOutputTokens >= 1) return maxOutputTokens;
  throw new EngineError("INVALID_REQUEST", "max_output_tokens: must be at least 1.");
}

/** Returns the number of tokens that fit after a prompt. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED if none does. */
export function roomBehind(inputTokens: number, contextWindow: number): number {
  const room = contextWindow - inputTokens;
  if (room >= 1) return room;
  throw windowExceeded(inputTokens, contextWindow);
}

/** Creates the error for a prompt after which no token fits; both numbers are tokens. */
export function windowExceeded(inputTokens: number, contextWindow: number): EngineError {
  return new EngineError("CONTEXT_WINDOW_EXCEEDED", "The prompt is longer than the model's context window.", {
    input_tokens: String(inputTokens),
    context_window: String(contextWindow),
  });
}

/**
 * Returns the lower of the request's limit and the room after its prompt. Throws `EngineError` INVALID_REQUEST for a
 * limit below 1, and CONTEXT_WINDOW_EXCEEDED if no token fits.
 */
export function limitOutput(request: GenerateRequest, inputTokens: number, contextWindow: number): OutputLimit {
  const room = roomBehind(inputTokens, contextWindow);
  const asked = askedOutputTokens(request) ?? Number.POSITIVE_INFINITY;
  return {
    maxOutputTokens: Math.min(asked, room),
    limitReason: asked <= room ? FinishReason.MAX_OUTPUT_TOKENS : FinishReason.CONTEXT_WINDOW,
  };
}
