/** A stream that gathers what one turn of the event loop brings and writes it in one piece. */
export interface Flushable {
  /** Writes what has gathered since the last call. */
  flush(): void;
}

/**
 * Writes all streams that got something in this turn of the event loop, once, at its end. One read from an engine's
 * connection often brings deltas of many streams and several of one: joining them saves a system call each.
 */
export class FlushQueue {
  #dirty: Flushable[] = [];

  /** Has `stream` flushed before the event loop waits again. It is to be called once per stream and turn. */
  add(stream: Flushable): void {
    if (this.#dirty.push(stream) === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const stream of dirty) stream.flush();
  };
}
