import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { Dialect } from "../dialect/dialect.ts";
import { type EngineHttp, isUnreachable } from "../http/engine-http.ts";
import { type EngineLoad, readLoad } from "./load.ts";

/** Asks an engine for its load again and again, and tells whether it has moved since. */
export class EngineWatch {
  readonly #http: EngineHttp;
  readonly #dialect: Dialect;
  readonly #intervalMs: number;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #load: EngineLoad | undefined;
  #gone = false;
  #moves = 0;
  #cancel: () => void = () => {};

  constructor(http: EngineHttp, dialect: Dialect, intervalMs: number, clock: Clock) {
    this.#http = http;
    this.#dialect = dialect;
    this.#intervalMs = intervalMs;
    this.#clock = clock;
  }

  /** The last answer of the engine; undefined while it does not answer. */
  get load(): EngineLoad | undefined {
    return this.#load;
  }

  /** Whether nobody answered at the engine's address when it was last asked. An engine that is only slow is there. */
  get gone(): boolean {
    return this.#gone;
  }

  /** The number of times that the engine was seen to have moved. */
  get moves(): number {
    return this.#moves;
  }

  /**
   * Calls `listener` whenever the engine has moved by its own counters; one that tells none has, for all that can be
   * known, whenever it answers. The returned function ends that.
   */
  onMove(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Begins to ask. */
  start(): void {
    void this.#poll();
  }

  /** Stops asking. */
  close(): void {
    this.#closing.abort();
    this.#cancel();
  }

  async #poll(): Promise<void> {
    const before = this.#load;
    const { signal } = this.#closing;
    let failure: unknown;
    this.#load = await readLoad(this.#http, this.#dialect, signal).catch((error: unknown) => {
      failure = error;
      return undefined;
    });
    if (signal.aborted) return;
    this.#gone = isUnreachable(failure);
    const counters = this.#load?.counters;
    const hasMoved = counters === undefined ? failure === undefined : before && before.counters !== counters;
    if (hasMoved) {
      this.#moves += 1;
      for (const tell of this.#listeners) tell();
    }
    this.#cancel = this.#clock.after(this.#intervalMs, () => void this.#poll());
  }
}
