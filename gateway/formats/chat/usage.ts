import { Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** Makes the `usage` object ("Token counts" in formats/README.md); an absent message means zeros, as in proto3. */
export function chatUsage(usage: Usage = Usage.create()) {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedInputTokens, cache_write_tokens: usage.cacheWriteTokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  };
}
