const NO_BYTES = Buffer.alloc(0);

/** Collects bytes that arrive in pieces in one buffer: its memory depends on the bytes and not on the pieces. */
export class HeldBytes {
  #buffer = NO_BYTES;
  #from = 0;
  #to = 0;

  get length(): number {
    return this.#to - this.#from;
  }

  /** Copies bytes in. The buffer is at most twice their size, and at most `expected` bytes to come. */
  add(piece: Buffer, from: number, to: number, expected = Number.POSITIVE_INFINITY): void {
    const length = this.length + to - from;
    if (this.#to + to - from > this.#buffer.length) {
      const buffer = Buffer.allocUnsafe(Math.max(length, Math.min(2 * length, expected)));
      this.#buffer.copy(buffer, 0, this.#from, this.#to);
      this.#to = this.length;
      this.#from = 0;
      this.#buffer = buffer;
    }
    piece.copy(this.#buffer, this.#to, from, to);
    this.#to += to - from;
  }

  /** Removes and returns the first `most` bytes, or all where there are no more. Default: all. */
  take(most = Number.POSITIVE_INFINITY): Buffer {
    const bytes = this.#buffer.subarray(this.#from, Math.min(this.#to, this.#from + most));
    this.#from += bytes.length;
    if (this.#from === this.#to) {
      this.#buffer = NO_BYTES;
      this.#from = 0;
      this.#to = 0;
    }
    return bytes;
  }
}
