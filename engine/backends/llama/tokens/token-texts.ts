import type { LlamaModel, Token } from "node-llama-cpp";

/**
 * A text that a tokenizer with clean-up of spaces does not reproduce, as it drops spaces before a full stop and the
 * like.
 */
const TIDIED = "a . b ? c ! d , e ' f n't g 'm h 's i 've j 're k";

type TextModel = Pick<LlamaModel, "detokenize" | "tokenize" | "vocabularyType">;

/**
 * Decodes a model's tokens, for all its answers. If the text of a token does not depend on those before it, as in
 * nearly all byte-level vocabularies, it is cached: the library takes about 15 µs per token, while the next one waits.
 */
export class TokenTexts {
  readonly #model: TextModel;
  readonly #marks: ReadonlySet<Token>;
  /** The cached texts by token; undefined if a text depends on the tokens before it. */
  readonly #known: Map<Token, string> | undefined;

  /** `marks` are the only control tokens whose text is kept. */
  constructor(model: TextModel, marks: ReadonlySet<Token>) {
    this.#model = model;
    this.#marks = marks;
    const isOfBytes = model.vocabularyType === "bpe" && model.detokenize(model.tokenize(TIDIED)) === TIDIED;
    this.#known = isOfBytes ? new Map() : undefined;
  }

  /** Returns the text of tokens that follow others. */
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
