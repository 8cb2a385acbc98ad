import { FinishReason, type GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";

/** How long an answer may become. */
export type OutputLimit = {
  readonly maxOutputTokens: number;
  /** Why an answer of so many tokens ends. */
  readonly limitReason: FinishReason;
};

/** The tokens that a request allows its answer; undefined without a bound. Throws `EngineError` INVALID_REQUEST below 1. */
export function askedOutputTokens({ maxOutputTokens }: GenerateRequest): number | undefined {
  if (maxOutputTokens === undefined || maxOutputTokens >= 1) return maxOutputTokens;
  throw new EngineError("INVALID_REQUEST", "max_output_tokens: must be at least 1.");
}

/** Tokens that fit behind a prompt. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED where none does. */
export function roomBehind(inputTokens: number, contextWindow: number): number {
  const room = contextWindow - inputTokens;
  if (room >= 1) return room;
  throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "The prompt is longer than the model's context window.", {
    input_tokens: String(inputTokens),
    context_window: String(contextWindow),
  });
}

/** The shorter of what a request allows and what fits behind its prompt. Throws `EngineError` as the two above do. */
export function limitOutput(request: GenerateRequest, inputTokens: number, contextWindow: number): OutputLimit {
  const room = roomBehind(inputTokens, contextWindow);
  const asked = askedOutputTokens(request) ?? Number.POSITIVE_INFINITY;
  return {
    maxOutputTokens: Math.min(asked, room),
    limitReason: asked <= room ? FinishReason.MAX_OUTPUT_TOKENS : FinishReason.CONTEXT_WINDOW,
  };
}
