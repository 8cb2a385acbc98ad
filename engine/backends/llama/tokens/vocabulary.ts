import type { LlamaModel, Token } from "node-llama-cpp";
import { type ControlToken, ControlTokens } from "../../../conversation/control-tokens.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { JsonEnds } from "./json-ends.ts";

/** Pre-tokenizers similar to GPT-4's: a text can be cut between words without changing its tokens. */
const SPLITS_WORDS: ReadonlySet<string> = new Set([
  ...["llama-bpe", "qwen2", "qwen35", "deepseek-r1-qwen", "gpt-4o", "minimax-m2", "tekken", "deepseek-v3"],
  ...["chatglm-bpe", "glm4", "kimi-k2", "grok-2"],
]);

export type Vocabulary = {
  readonly size: number;
  readonly controlTokens: ControlTokens;
  readonly cutsAtWords: boolean;
  /** Undefined if the tokenizer may drop characters. */
  readonly longestTokenBytes: number | undefined;
  /** The control tokens that do not end an answer: detokenizing drops them. */
  readonly hiddenTokens: readonly Token[];
  /** The tokens that end strings and brackets in JSON. */
  readonly jsonEnds: JsonEnds<Token>;
  readonly bosText: string;
  readonly eosText: string;
  /** The single token that the tokenizer matches for this spelling anywhere in a text. */
  markerToken(spelling: string): Token | undefined;
};

export function readVocabulary(model: LlamaModel): Vocabulary {
  const tokens: ControlToken[] = [];
  const ids = new Map<string, Token>();
  const hiddenTokens: Token[] = [];
  const jsonEnds = new JsonEnds<Token>();
  let size = 0;
  let longest = 1;
  for (const id of model.iterateAllTokens()) {
    size += 1;
    const attributes = model.getTokenAttributes(id);
    const text = model.detokenize([id], true);
    longest = Math.max(longest, Buffer.byteLength(text));
    jsonEnds.add(id, text);
    if (!attributes.control && !attributes.userDefined && !attributes.unknown) continue;
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
    jsonEnds,
    longestTokenBytes: ["bpe", "spm"].includes(model.vocabularyType) ? longest : undefined,
    cutsAtWords: model.vocabularyType === "bpe" && pre !== undefined && SPLITS_WORDS.has(pre),
    bosText: bos === null ? "" : model.detokenize([bos], true),
    eosText: eos === null ? "" : model.detokenize([eos], true),
    markerToken: (spelling) => ids.get(spelling),
  };
}

/** Returns the tokens of the markers: their text is needed, although the library drops that of control tokens. */
export function markTokens({ reasoning, toolCall, text }: OutputMarkers, vocabulary: Vocabulary): ReadonlySet<Token> {
  const marks = [reasoning, toolCall, text].flatMap((part) => Object.values(part ?? {}).flat());
  return new Set(
    marks.flatMap((mark) =>
      typeof mark !== "string"
        ? []
        : vocabulary.controlTokens.occurrences(mark).flatMap(({ token }) => vocabulary.markerToken(token.text) ?? []),
    ),
  );
}

export function withoutTokens(mark: string, { controlTokens }: Vocabulary): readonly string[] {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of controlTokens.occurrences(mark)) {
    if (start > from) parts.push(mark.slice(from, start));
    from = Math.max(from, end);
  }
  if (from < mark.length) parts.push(mark.slice(from));
  return parts;
}
