import { FinishReason, type GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";

/** The limit on the length of an answer. */
export type OutputLimit = {
  /** The most tokens of the answer, at least 1. */
  readonly maxOutputTokens: number;
  /** The reason why an answer of so many tokens ends. */
  readonly limitReason: FinishReason;
};

/**
 * Returns the tokens that a request allows its answer; undefined without a bound. Throws `EngineError` INVALID_REQUEST
 * below 1.
 */
export function askedOutputTokens({ maxOutputTokens }: GenerateRequest): number | undefined {
  if (maxOutputTokens === undefined || maxOutputTokens >= 1) return maxOutputTokens;
  throw new EngineError("INVALID_REQUEST", "max_output_tokens: must be at least 1.");
}

/**
 * Returns the number of tokens that fit behind a prompt. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED where none does.
 */
export function roomBehind(inputTokens: number, contextWindow: number): number {
  const room = contextWindow - inputTokens;
  if (room >= 1) return room;
  throw windowExceeded(inputTokens, contextWindow);
}

/** Makes the error for a prompt behind which nothing fits; both numbers are tokens. */
export function windowExceeded(inputTokens: number, contextWindow: number): EngineError {
  return new EngineError("CONTEXT_WINDOW_EXCEEDED", "The prompt is longer than the model's context window.", {
    input_tokens: String(inputTokens),
    context_window: String(contextWindow),
  });
}

/**
 * Returns the shorter of what a request allows and what fits behind its prompt. Throws `EngineError` INVALID_REQUEST
 * for a request that allows no token, and CONTEXT_WINDOW_EXCEEDED where none fits.
 */
export function limitOutput(request: GenerateRequest, inputTokens: number, contextWindow: number): OutputLimit {
  const room = roomBehind(inputTokens, contextWindow);
  const asked = askedOutputTokens(request) ?? Number.POSITIVE_INFINITY;
  return {
    maxOutputTokens: Math.min(asked, room),
    limitReason: asked <= room ? FinishReason.MAX_OUTPUT_TOKENS : FinishReason.CONTEXT_WINDOW,
  };
}
