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
