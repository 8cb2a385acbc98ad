import type { LlamaModel, Token } from "node-llama-cpp";
import { type ControlToken, ControlTokens } from "../../../conversation/prompt-pieces.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";

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
  readonly endTokens: readonly Token[];
  readonly bosText: string;
  readonly eosText: string;
  /** The single token that the tokenizer matches for this spelling anywhere in a text. */
  markerToken(spelling: string): Token | undefined;
};

export function readVocabulary(model: LlamaModel): Vocabulary {
  const tokens: ControlToken[] = [];
  const ids = new Map<string, Token>();
  const hiddenTokens: Token[] = [];
  const endTokens: Token[] = [];
  let size = 0;
  let longest = 1;
  for (const id of model.iterateAllTokens()) {
    size += 1;
    const attributes = model.getTokenAttributes(id);
    const text = model.detokenize([id], true);
    longest = Math.max(longest, Buffer.byteLength(text));
    if (model.isEogToken(id)) endTokens.push(id);
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
    endTokens,
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

/** A tokenizer that tidies spaces does not reproduce this. */
const TIDIED = "a . b ? c ! d , e ' f n't g 'm h 's i 've j 're k";

type TextModel = Pick<LlamaModel, "detokenize" | "tokenize" | "vocabularyType">;

/** Decodes tokens, cached where no text depends on the tokens before it: the library takes 15 µs per token. */
export class TokenTexts {
  readonly #model: TextModel;
  readonly #marks: ReadonlySet<Token>;
  readonly #known: Map<Token, string> | undefined;

  /** `marks` are the only control tokens whose text is kept. */
  constructor(model: TextModel, marks: ReadonlySet<Token>) {
    this.#model = model;
    this.#marks = marks;
    const isOfBytes = model.vocabularyType === "bpe" && model.detokenize(model.tokenize(TIDIED)) === TIDIED;
    this.#known = isOfBytes ? new Map() : undefined;
  }

  of(tokens: readonly Token[], before: readonly Token[]): string {
    const [only] = tokens;
    if (!this.#known || only === undefined || tokens.length > 1) return this.#read(tokens, before);
    const known = this.#known.get(only);
    if (known !== undefined) return known;
    const text = this.#read(tokens, []);
    this.#known.set(only, text);
    return text;
  }

  #read(tokens: readonly Token[], before: readonly Token[]): string {
    return this.#model.detokenize(
      tokens,
      tokens.some((token) => this.#marks.has(token)),
      before,
    );
  }
}

/** The most held tokens: a character has at most 4 bytes, and a token at least one. */
const MAX_HELD_TOKENS = 4;

const REPLACEMENT = "\uFFFD";

/** Decodes token ids to whole characters; a character may be four tokens. */
export class Utf8Holder<Id> {
  readonly #decode: (ids: readonly Id[], before: readonly Id[]) => string;
  #held: Id[] = [];
  #before: readonly Id[];

  /** Some tokenizers' leading space depends on `before`, the preceding tokens. */
  constructor(decode: (ids: readonly Id[], before: readonly Id[]) => string, before: readonly Id[]) {
    this.#decode = decode;
    this.#before = before.slice(-MAX_HELD_TOKENS);
  }

  push(id: Id): string {
    this.#held.push(id);
    const text = this.#decode(this.#held, this.#before);
    if (text.endsWith(REPLACEMENT) && this.#held.length < MAX_HELD_TOKENS) return "";
    this.#release();
    return text;
  }

  flush(): string {
    if (this.#held.length === 0) return "";
    const text = this.#decode(this.#held, this.#before);
    this.#release();
    return text;
  }

  #release(): void {
    this.#before = [...this.#before, ...this.#held].slice(-MAX_HELD_TOKENS);
    this.#held = [];
  }
}
