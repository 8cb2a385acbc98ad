/** The most held tokens: a character has at most 4 bytes, and a token at least one. */
const MAX_HELD_TOKENS = 4;

/** The character that a decoder writes for incomplete bytes. */
const REPLACEMENT = "\uFFFD";

/**
 * Decodes token ids to text, whole characters only: an emoji may be four tokens, each of which is unreadable alone. A
 * replacement character that the model intends is held for a few tokens only.
 */
export class Utf8Holder<Id> {
  readonly #decode: (ids: readonly Id[], before: readonly Id[]) => string;
  #held: Id[] = [];
  #before: readonly Id[];

  /**
   * `before` are the preceding tokens, on which the leading space of some tokenizers depends. `decode` returns the text
   * of tokens that follow others.
   */
  constructor(decode: (ids: readonly Id[], before: readonly Id[]) => string, before: readonly Id[]) {
    this.#decode = decode;
    this.#before = before.slice(-MAX_HELD_TOKENS);
  }

  /** Takes the next token. Returns the complete text; "" while the last character is incomplete. */
  push(id: Id): string {
    this.#held.push(id);
    const text = this.#decode(this.#held, this.#before);
    if (text.endsWith(REPLACEMENT) && this.#held.length < MAX_HELD_TOKENS) return "";
    this.#release();
    return text;
  }

  /** Returns the held text, readable or not. */
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
