import type { AlternativeLogprob, TokenLogprob } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** Stands for the logarithm of zero, which JSON cannot represent. */
const LOWEST = -9999;

/** Makes the `logprobs` object of some tokens; null where the engine sent none. */
export function chatLogprobs(tokens: readonly TokenLogprob[]) {
  if (tokens.length === 0) return null;
  return {
    content: tokens.map((token) => ({ ...entry(token), top_logprobs: token.alternatives.map(entry) })),
    refusal: null,
  };
}

function entry(token: AlternativeLogprob) {
  return {
    token: token.token,
    logprob: Math.max(token.logprob, LOWEST),
    bytes: token.tokenBytes.length > 0 ? [...token.tokenBytes] : null,
  };
}
