/** A map that forgets what was not used for longest once all of it together is larger than `maxBytes`. */
export class ByteBoundedCache<Value> {
  readonly #maxBytes: number;
  /** The values, of which the first is the one unused for longest. */
  readonly #entries = new Map<string, { readonly value: Value; readonly bytes: number }>();
  #bytes = 0;

  /** Makes an empty cache that holds up to `maxBytes` bytes. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The number of bytes that the values hold together, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns a value, which then counts as used; undefined where it is not known or forgotten. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Keeps a value that holds about `bytes` bytes. One that is larger than the bound is not kept. */
  set(key: string, value: Value, bytes: number): void {
    this.#bytes += bytes - (this.#entries.get(key)?.bytes ?? 0);
    this.#entries.delete(key);
    this.#entries.set(key, { value, bytes });
    for (const [oldest, entry] of this.#entries) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#entries.delete(oldest);
      this.#bytes -= entry.bytes;
    }
  }
}
