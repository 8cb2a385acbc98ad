/** A map that holds so many entries: of more, those go that were set longest ago. */
export class BoundedMap<Key, Value> {
  readonly #max: number;
  readonly #entries = new Map<Key, Value>();

  /** Makes an empty map of at most `max` entries. */
  constructor(max: number) {
    this.#max = max;
  }

  /** The number of entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** Returns the value of a key; undefined where it has none. */
  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** Gives a key its value, as the newest entry. */
  set(key: Key, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
  /** Goes through the entries, the one that was set longest ago first. */
  [Symbol.iterator](): IterableIterator<[Key, Value]> {
    return this.#entries.entries();
  }
}
