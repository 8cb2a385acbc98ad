/** The memory that the body of one request takes up while it arrives and is understood. */
export type InflightBody = {
  /** Takes up `bytes` more. Returns false, and takes up nothing more, where that would be too much. */
  add(bytes: number): boolean;
  /** Gives back all that the body takes up. It is to be called last, and may be called again. */
  release(): void;
};

/**
 * Counts the bytes of all request bodies that are being received. Bytes that have come count, not those that were
 * announced.
 */
export class InflightBodies {
  /** The most bytes that all bodies together may take up. */
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The bytes that all bodies together take up now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns whether `bytes` more would still fit. */
  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.maxBytes;
  }

  /** Starts a body, which takes up nothing yet. */
  begin(): InflightBody {
    let held = 0;
    return {
      add: (bytes) => {
        if (!this.hasRoom(bytes)) return false;
        held += bytes;
        this.#bytes += bytes;
        return true;
      },
      release: () => {
        this.#bytes -= held;
        held = 0;
      },
    };
  }
}
