import type { LlamaModel, Token } from "node-llama-cpp";

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
