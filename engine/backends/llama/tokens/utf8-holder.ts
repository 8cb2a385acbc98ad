/** The most tokens that are held: no character has more bytes, and no token less than one. */
const MAX_HELD_TOKENS = 4;

/** The character that a decoder writes for bytes that are not (yet) a character. */
const REPLACEMENT = "\uFFFD";

/**
 * Makes text out of token ids, whole characters only: one emoji may be four tokens, each of which decodes to nothing
 * readable. A replacement character that the model means is only held for a few tokens.
 */
export class Utf8Holder<Id> {
  readonly #decode: (ids: readonly Id[], before: readonly Id[]) => string;
  #held: Id[] = [];
  #before: readonly Id[];

  /**
   * Starts behind the tokens `before`, by which some tokenizers decode a leading space. `decode` gives the text of
   * tokens that stand behind others.
   */
  constructor(decode: (ids: readonly Id[], before: readonly Id[]) => string, before: readonly Id[]) {
    this.#decode = decode;
    this.#before = before.slice(-MAX_HELD_TOKENS);
  }

  /** Takes the next token. Returns the text that is now whole; "" while the last character is not. */
  push(id: Id): string {
    this.#held.push(id);
    const text = this.#decode(this.#held, this.#before);
    if (text.endsWith(REPLACEMENT) && this.#held.length < MAX_HELD_TOKENS) return "";
    this.#release();
    return text;
  }

  /** Returns what is still held, readable or not. */
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
