/** An entry, in the row of all by when they were set. */
type Entry<Key, Value> = {
  readonly key: Key;
  value: Value;
  older: Entry<Key, Value> | undefined;
  newer: Entry<Key, Value> | undefined;
};

/**
 * A map that holds so many entries: of more, those go that were set longest ago. It keeps their row itself. A `Map` whose
 * keys are deleted to be set anew keeps the holes until it has grown by half, and whoever asks for its first key walks
 * over all of them: with 100,000 entries that takes some 30 µs each time.
 */
export class BoundedMap<Key, Value> {
  readonly #max: number;
  readonly #entries = new Map<Key, Entry<Key, Value>>();
  #oldest: Entry<Key, Value> | undefined;
  #newest: Entry<Key, Value> | undefined;

  /** Makes an empty map of at most `max` entries; by default any number. */
  constructor(max = Number.POSITIVE_INFINITY) {
    this.#max = max;
  }

  /** The number of entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** The key and the value that were set longest ago; undefined where there is no entry. */
  get oldest(): { readonly key: Key; readonly value: Value } | undefined {
    return this.#oldest;
  }

  /** Returns the value of a key; undefined where it has none. */
  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Gives a key its value, as the newest entry. */
  set(key: Key, value: Value): void {
    const known = this.#entries.get(key);
    if (known) {
      known.value = value;
      if (known === this.#newest) return;
      this.#unlink(known);
      this.#append(known);
      return;
    }
    const entry = { key, value, older: undefined, newer: undefined };
    this.#entries.set(key, entry);
    this.#append(entry);
    if (this.#entries.size > this.#max && this.#oldest) this.delete(this.#oldest.key);
  }

  /** Takes an entry out. Returns whether there was one. */
  delete(key: Key): boolean {
    const entry = this.#entries.get(key);
    if (!entry) return false;
    this.#entries.delete(key);
    this.#unlink(entry);
    return true;
  }

  /** Goes through the entries, the one that was set last first. Whatever it has come to may be deleted meanwhile. */
  *newestFirst(): Generator<readonly [key: Key, value: Value]> {
    for (let entry = this.#newest; entry; entry = entry.older) yield [entry.key, entry.value];
  }

  #append(entry: Entry<Key, Value>): void {
    entry.older = this.#newest;
    entry.newer = undefined;
    if (this.#newest) this.#newest.newer = entry;
    else this.#oldest = entry;
    this.#newest = entry;
  }

  #unlink({ older, newer }: Entry<Key, Value>): void {
    if (older) older.newer = newer;
    else this.#oldest = newer;
    if (newer) newer.older = older;
    else this.#newest = older;
  }
}
