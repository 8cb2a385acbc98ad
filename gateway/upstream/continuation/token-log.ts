/** The tokens in the first chunk of a log: most answers are short. */
const FIRST_TOKENS = 256;
/** The tokens in every further chunk of a log: so many that what a chunk costs beside them is lost in them. */
const CHUNK_TOKENS = 2_048;

const BYTES_PER_TOKEN = 4;
const NOTHING = new Uint32Array(0);

/** Keeps the tokens of one answer in their order, in 4 bytes each. Nothing of it is ever moved as it grows. */
export class TokenLog {
  readonly #chunks: Uint32Array[] = [];
  #last = NOTHING;
  /** The number of tokens in the last chunk. */
  #used = 0;
  #size = 0;

  /** The number of tokens. */
  get size(): number {
    return this.#size;
  }

  /** The memory that the log takes up, in bytes; it grows by whole chunks. */
  get bytes(): number {
    const [first] = this.#chunks;
    if (!first) return 0;
    return BYTES_PER_TOKEN * (FIRST_TOKENS + (this.#chunks.length - 1) * CHUNK_TOKENS);
  }

  /** Adds a token behind the others. It runs for every token of every answer. */
  push(token: number): void {
    if (this.#used === this.#last.length) this.#grow();
    this.#last[this.#used] = token;
    this.#used += 1;
    this.#size += 1;
  }

  /** Returns the token at `index`, counted from 0; undefined where there is none. */
  at(index: number): number | undefined {
    if (index >= this.#size) return undefined;
    if (index < FIRST_TOKENS) return this.#chunks[0]?.[index];
    const behind = index - FIRST_TOKENS;
    return this.#chunks[1 + Math.floor(behind / CHUNK_TOKENS)]?.[behind % CHUNK_TOKENS];
  }

  /** Returns all tokens in a new array. */
  all(): number[] {
    const tokens = this.#chunks.flatMap((chunk) => Array.from(chunk));
    tokens.length = this.#size;
    return tokens;
  }

  #grow(): void {
    this.#last = new Uint32Array(this.#chunks.length === 0 ? FIRST_TOKENS : CHUNK_TOKENS);
    this.#chunks.push(this.#last);
    this.#used = 0;
  }
}
