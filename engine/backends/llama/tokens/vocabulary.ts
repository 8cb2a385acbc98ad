import type { LlamaModel, Token } from "node-llama-cpp";
import { type ControlToken, ControlTokens } from "../../../conversation/control-tokens.ts";

/**
 * Pre-tokenizers of GPT-4's kind: a space begins the word behind it, and a line break ends the white space it stands in.
 * So a text can be cut there without changing its tokens. With any other a text is tokenised in one go.
 */
const SPLITS_WORDS = new Set(["llama-bpe", "qwen2", "gpt-4o", "tekken", "deepseek-v3", "chatglm-bpe", "glm4"]);

/** What the engine must know of a model's tokens. */
export type Vocabulary = {
  readonly size: number;
  readonly controlTokens: ControlTokens;
  readonly cutsAtWords: boolean;
  /** Control tokens that do not end an answer: detokenizing leaves them out. */
  readonly hiddenTokens: readonly Token[];
  /** Spelling of the token, or "" where the model has none. */
  readonly bosText: string;
  readonly eosText: string;
  /** The single token with this spelling, matched wherever it stands. */
  markerToken(spelling: string): Token | undefined;
};

export function readVocabulary(model: LlamaModel): Vocabulary {
  const tokens: ControlToken[] = [];
  const ids = new Map<string, Token>();
  const hiddenTokens: Token[] = [];
  let size = 0;
  for (const id of model.iterateAllTokens()) {
    size += 1;
    const attributes = model.getTokenAttributes(id);
    if (!attributes.control && !attributes.userDefined && !attributes.unknown) continue;
    const text = model.detokenize([id], true);
    tokens.push({ text, stripsLeft: attributes.lstrip });
    ids.set(text, id);
    if (attributes.control && !model.isEogToken(id)) hiddenTokens.push(id);
  }
  const pre = model.fileInfo.metadata.tokenizer.ggml.pre;
  const { bos, eos } = model.tokens;
  return {
    size,
    controlTokens: new ControlTokens(tokens),
    hiddenTokens,
    cutsAtWords: model.vocabularyType === "bpe" && pre !== undefined && SPLITS_WORDS.has(pre),
    bosText: bos === null ? "" : model.detokenize([bos], true),
    eosText: eos === null ? "" : model.detokenize([eos], true),
    markerToken: (spelling) => ids.get(spelling),
  };
}
