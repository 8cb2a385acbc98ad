import type { LlamaModel, Token } from "node-llama-cpp";
import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";

/** The log probability of an impossible token, as JSON has no infinity. */
const LOWEST = -9999;

/** In the distribution from which the token was drawn: after temperature, top-p and the like. */
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

function firstEntries(map: ReadonlyMap<Token, number>, count: number): readonly (readonly [Token, number])[] {
  const entries: (readonly [Token, number])[] = [];
  for (const entry of map) {
    if (entries.length >= count) break;
    entries.push(entry);
  }
  return entries;
}

/** GPT-2's scheme: printable bytes represent themselves, the others are mapped to characters from U+0100 on. */
const BYTE_OF = byteLevelAlphabet();

/** The bytes of the text if it is valid, else those of a byte-level spelling; empty if unknown. */
export function tokenBytes(text: string, spelling: string | undefined): Buffer {
  if (!text.includes("\uFFFD")) return Buffer.from(text, "utf8");
  const bytes = [...(spelling ?? "")].map((character) => BYTE_OF.get(character));
  return bytes.every((byte) => byte !== undefined) ? Buffer.from(bytes) : Buffer.alloc(0);
}

function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const alphabet = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    alphabet.set(String.fromCharCode(printable ? byte : next), byte);
    if (!printable) next += 1;
  }
  return alphabet;
}
