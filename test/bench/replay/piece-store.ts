const INITIAL_ROOM = 1 << 16;

/**
 * The pieces of prompts, by number. A piece represents its own tokens after all pieces before it, so the pieces form
 * trees, and the last piece identifies a prompt.
 */
export class PieceStore {
  #parents = new Int32Array(INITIAL_ROOM);
  #depths = new Int32Array(INITIAL_ROOM);
  #count = 0;

  /** Adds a piece after another (-1 for none) and returns its number. */
  add(parent: number, tokens: number): number {
    if (this.#count === this.#parents.length) {
      this.#parents = grown(this.#parents);
      this.#depths = grown(this.#depths);
    }
    const piece = this.#count;
    this.#count += 1;
    this.#parents[piece] = parent;
    this.#depths[piece] = this.depth(parent) + tokens;
    return piece;
  }

  /** Returns the previous piece; -1 for none. */
  parent(piece: number): number {
    return this.#parents[piece] ?? -1;
  }

  /** Returns the tokens from the beginning of the prompt to the end of a piece; 0 for -1. */
  depth(piece: number): number {
    return piece < 0 ? 0 : (this.#depths[piece] ?? 0);
  }

  tokens(piece: number): number {
    return this.depth(piece) - this.depth(this.parent(piece));
  }
}

export function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length);
  larger.set(array);
  return larger;
}
