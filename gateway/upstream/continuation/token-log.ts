/** The tokens in the first chunk of a log, a power of two: many answers are short, and many streams are idle. */
const FIRST_TOKENS = 64;
/** The tokens in the largest chunks of a log, so many that a chunk's overhead is negligible. */
const CHUNK_TOKENS = 2_048;
/** The number of chunks up to the first of the largest ones; each has twice the tokens of the one before. */
const GROWING_CHUNKS = Math.log2(CHUNK_TOKENS / FIRST_TOKENS) + 1;
/** The tokens in those. */
const GROWING_TOKENS = 2 * CHUNK_TOKENS - FIRST_TOKENS;

const BYTES_PER_TOKEN = 4;
const NOTHING = new Uint32Array(0);

/** Stores the tokens of one answer in order, in 4 bytes each. Growth moves none of them. */
export class TokenLog {
  #chunks: Uint32Array[] | undefined;
  #last = NOTHING;
  /** The number of tokens in the last chunk. */
  #used = 0;
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  /** The memory of the log, in bytes; it grows by whole chunks. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Appends a token. Runs for every token of every answer. */
  push(token: number): void {
    if (this.#used === this.#last.length) this.#grow();
    this.#last[this.#used] = token;
    this.#used += 1;
    this.#size += 1;
  }

  /** Returns the token at `index`, counted from 0; undefined where there is none. */
  at(index: number): number | undefined {
    if (index >= this.#size) return undefined;
    if (index >= GROWING_TOKENS) {
      const behind = index - GROWING_TOKENS;
      return this.#chunks?.[GROWING_CHUNKS + Math.floor(behind / CHUNK_TOKENS)]?.[behind % CHUNK_TOKENS];
    }
    const chunk = 31 - Math.clz32(index / FIRST_TOKENS + 1);
    return this.#chunks?.[chunk]?.[index - FIRST_TOKENS * (2 ** chunk - 1)];
  }

  /** Returns all tokens in a new array. */
  all(): number[] {
    const tokens = (this.#chunks ?? []).flatMap((chunk) => Array.from(chunk));
    tokens.length = this.#size;
    return tokens;
  }

  #grow(): void {
    this.#last = new Uint32Array(Math.min(2 * this.#last.length || FIRST_TOKENS, CHUNK_TOKENS));
    this.#bytes += this.#last.length * BYTES_PER_TOKEN;
    this.#used = 0;
    // A literal allocates exactly its elements, which suffices for most answers.
    if (this.#chunks) this.#chunks.push(this.#last);
    else this.#chunks = [this.#last];
  }
}
