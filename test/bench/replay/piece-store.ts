/** The number of pieces that there is room for at first. */
const INITIAL_ROOM = 1 << 16;

/**
 * The pieces that prompts are made of, by number: each stands for its own tokens behind all that is before it, so that
 * the pieces of all prompts are trees, and a prompt is named by its last piece.
 */
export class PieceStore {
  #parents = new Int32Array(INITIAL_ROOM);
  #depths = new Int32Array(INITIAL_ROOM);
  #count = 0;

  /** Adds a piece behind another one, -1 for none before it, and returns its number. */
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

  /** Returns the piece before a piece; -1 where there is none. */
  parent(piece: number): number {
    return this.#parents[piece] ?? -1;
  }

  /** Returns the tokens from the begin of the prompt to the end of a piece; 0 for -1. */
  depth(piece: number): number {
    return piece < 0 ? 0 : (this.#depths[piece] ?? 0);
  }

  /** Returns the tokens of a piece itself. */
  tokens(piece: number): number {
    return this.depth(piece) - this.depth(this.parent(piece));
  }
}

/** Returns a copy of an array with room for twice as many numbers. */
export function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length);
  larger.set(array);
  return larger;
}
