import type { LlamaModel, Token } from "node-llama-cpp";

/** A text of which a tokenizer that tidies up what it writes leaves spaces out, as before a full stop. */
const TIDIED = "a . b ? c ! d , e ' f n't g 'm h 's i 've j 're k";

/** What of a model its texts are read from. */
type TextModel = Pick<LlamaModel, "detokenize" | "tokenize" | "vocabularyType">;

/**
 * Tells the text of a model's tokens, for all its answers. Where the text of a token does not depend on those before it,
 * as in nearly all vocabularies of bytes, it is asked for once: the library takes some 15 µs for each token otherwise,
 * while the next one waits for it.
 */
export class TokenTexts {
  readonly #model: TextModel;
  readonly #marks: ReadonlySet<Token>;
  /** The texts by token, as far as they were asked for; undefined where a text depends on the tokens before. */
  readonly #known: Map<Token, string> | undefined;

  /** Reads texts from a model, of whose control tokens only `marks` have one. */
  constructor(model: TextModel, marks: ReadonlySet<Token>) {
    this.#model = model;
    this.#marks = marks;
    const isOfBytes = model.vocabularyType === "bpe" && model.detokenize(model.tokenize(TIDIED)) === TIDIED;
    this.#known = isOfBytes ? new Map() : undefined;
  }

  /** Returns the text of tokens that stand behind others. */
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
