import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { EngineSteps } from "../../../backend.ts";
import type { Dialect } from "../dialect/dialect.ts";
import { type EngineHttp, isUnreachable } from "../http/engine-http.ts";
import { type EngineLoad, readLoad } from "./load.ts";

/** How an engine is watched. */
export type EngineWatchOptions = {
  /** The time between two questions, in milliseconds. */
  readonly loadIntervalMs: number;
  /** The time that one step of the engine may take, in milliseconds. */
  readonly stepTimeoutMs: number;
  /** The time that the engine may take to come up, in milliseconds. */
  readonly startTimeoutMs: number;
};

/**
 * Asks an engine for its load again and again, and tells whether it has moved since. An engine whose counters stand
 * still is in the middle of a step: a long one, where it compiles what a first request needs. It is believed for
 * `stepTimeoutMs` from the last step, or from when somebody began to wait, as long as it answers.
 */
export class EngineWatch {
  readonly #http: EngineHttp;
  readonly #dialect: Dialect;
  readonly #options: EngineWatchOptions;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #load: EngineLoad | undefined;
  #gone = false;
  #moves = 0;
  /** The newest counters of the engine; undefined before it has told any since it came up. */
  #counters: string | undefined;
  /** The number of steps that its counters or its answers have shown. */
  #steps = 0;
  #starting = true;
  #owed = 0;
  /** When the running step began, at the latest. */
  #stepMs = 0;
  #cancel: () => void = () => {};

  constructor(http: EngineHttp, dialect: Dialect, options: EngineWatchOptions, clock: Clock) {
    this.#http = http;
    this.#dialect = dialect;
    this.#options = options;
    this.#clock = clock;
  }

  /** The last answer of the engine; undefined while it does not answer. */
  get load(): EngineLoad | undefined {
    return this.#load;
  }

  /**
   * The engine's pulse. One that nobody reaches stands still. Of one that tells no counters, and so may read a long prompt
   * without a sign, there is none.
   */
  get steps(): EngineSteps | undefined {
    const { stepTimeoutMs, startTimeoutMs } = this.#options;
    const made = this.#steps;
    if (this.#gone) return { made, inFlight: 1, down: true };
    if (this.#counters === undefined) return undefined;
    return { made, inFlight: this.#owed, stepTimeoutMs, ...(this.#starting && { startTimeoutMs }) };
  }

  /** The number of times that the engine was seen to have moved. */
  get moves(): number {
    return this.#moves;
  }

  /**
   * Calls `listener` whenever the engine has moved by its own counters, or is believed to be in the middle of a step;
   * one that tells no counters has moved, for all that can be known, whenever it answers. The returned function ends
   * that.
   */
  onMove(listener: () => void): () => void {
    if (this.#listeners.size === 0) this.#stepMs = this.#clock.nowMs();
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Waits for what the engine owes a generation: a step of it, until `work` has settled. */
  async owed<T>(work: Promise<T>): Promise<T> {
    this.#owed += 1;
    try {
      return await work;
    } finally {
      this.#owed -= 1;
    }
  }

  /** Notes that the engine has made a step: a piece of an answer has come. */
  stepped(): void {
    this.#steps += 1;
    this.#starting = false;
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
    this.#count(counters, failure === undefined);
    if (counters !== undefined && before?.counters !== counters) this.#stepMs = this.#clock.nowMs();
    const inStep = this.#clock.nowMs() - this.#stepMs < this.#options.stepTimeoutMs;
    const answers = failure === undefined;
    const hasMoved = counters === undefined ? answers : before && before.counters !== counters;
    if (hasMoved || (answers && inStep)) {
      this.#moves += 1;
      for (const tell of this.#listeners) tell();
    }
    this.#cancel = this.#clock.after(this.#options.loadIntervalMs, () => void this.#poll());
  }

  /** Takes the engine's counters, undefined where it told none; an engine that came up anew begins anew. */
  #count(counters: string | undefined, answers: boolean): void {
    if (this.#gone) this.#starting = true;
    if (counters !== undefined && this.#counters !== undefined && counters !== this.#counters) this.stepped();
    // One that does not answer in time has not stopped counting.
    if (answers || this.#gone) this.#counters = counters;
  }
}
