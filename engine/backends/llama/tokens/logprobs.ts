import type { LlamaModel, Token } from "node-llama-cpp";
import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { tokenBytes } from "./token-bytes.ts";

/** Stands for "impossible", as JSON has no infinity. */
const LOWEST = -9999;

/**
 * The log probability of a token and of the likeliest alternatives, in the distribution it was drawn from: after
 * temperature, top-p and the like.
 */
export function toTokenLogprob(
  model: LlamaModel,
  token: Token,
  probabilities: ReadonlyMap<Token, number>,
  alternatives: number,
): TokenLogprob {
  const spellings = model.vocabularyType === "bpe" ? model.fileInfo.metadata.tokenizer.ggml.tokens : [];
  const describe = (id: Token, probability: number) => {
    const text = model.detokenize([id], true);
    const logprob = Math.max(LOWEST, Math.log(probability));
    return { token: text, tokenBytes: tokenBytes(text, spellings[id]), logprob };
  };
  return {
    ...describe(token, probabilities.get(token) ?? 0),
    alternatives: firstEntries(probabilities, alternatives).map(([id, probability]) => describe(id, probability)),
  };
}

/** The map is in falling order, and may be as long as the vocabulary. */
function firstEntries(map: ReadonlyMap<Token, number>, count: number): readonly (readonly [Token, number])[] {
  const entries: (readonly [Token, number])[] = [];
  for (const entry of map) {
    if (entries.length >= count) break;
    entries.push(entry);
  }
  return entries;
}
