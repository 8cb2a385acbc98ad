/** What one request's body takes up while it arrives and is understood. */
export type InflightBody = {
  /** Takes up more; false, and nothing more, where that would be too much. */
  add(bytes: number): boolean;
  /** Takes up nothing any more. To be called last; may be called again. */
  release(): void;
};

/** The bodies that are being received, all together: what has come of them counts, not what was announced. */
export class InflightBodies {
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.maxBytes;
  }

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
