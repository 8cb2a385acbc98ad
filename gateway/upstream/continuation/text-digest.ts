/** The two odd factors of the two halves of a digest: that of FNV-1a, and the golden ratio in 32 bits. */
const FACTOR_A = 0x0100_0193;
const FACTOR_B = 0x9e37_79b1;
const OFFSET_A = 0x811c_9dc5 | 0;

/**
 * A digest of 64 bits over a text in pieces, independent of the division into pieces. It distinguishes texts that
 * differ by accident, for two multiplications per character, and is not collision resistant.
 */
export class TextDigest {
  #a = OFFSET_A;
  #b = 0;
  #length = 0;

  /** The length of the text so far, in UTF-16 code units. */
  get length(): number {
    return this.#length;
  }

  /** Adds the next piece: of `text`, the code units before `end`. Default: all of them. */
  add(text: string, end = text.length): void {
    // Both halves fit into V8's small integers: no delta allocates.
    let a = this.#a;
    let b = this.#b;
    for (let at = 0; at < end; at += 1) {
      const unit = text.charCodeAt(at);
      a = Math.imul(a ^ unit, FACTOR_A);
      b = Math.imul(b + unit + 1, FACTOR_B);
    }
    this.#a = a;
    this.#b = b;
    this.#length += end;
  }

  /** Returns whether both are digests of the same text. */
  equals(other: TextDigest): boolean {
    return this.#length === other.#length && this.#a === other.#a && this.#b === other.#b;
  }
}
