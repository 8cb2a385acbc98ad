import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { EngineSteps } from "../../../backend.ts";
import type { EngineDialect } from "../engines/engine-dialect.ts";
import { type EngineHttp, isRefused, isUnreachable } from "../http/engine-http.ts";
import { type EngineLoad, readLoad } from "./load.ts";

/** The time that an engine which owes a step has to say that it is up, after its load page has timed out. */
const HEALTH_TIMEOUT_MS = 1_000;

export type EngineWatchOptions = {
  readonly loadIntervalMs: number;
  readonly stepTimeoutMs: number;
  readonly startTimeoutMs: number;
};

/**
 * Polls an engine's load, and detects progress. Unchanged counters mean that the engine is in the middle of a step,
 * which may be long, as when it compiles for a first request. It is trusted for `stepTimeoutMs` from the last step, or
 * from the start of the first wait, as long as it answers.
 */
export class EngineWatch {
  readonly #http: EngineHttp;
  readonly #dialect: EngineDialect;
  readonly #options: EngineWatchOptions;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  /** The last report of the engine; undefined while it does not answer. */
  load: EngineLoad | undefined;
  #isUnreachable = false;
  #gone = false;
  /** Whether the engine has answered nothing and made no step for a whole poll in which it owed one. */
  #silent = false;
  moves = 0;
  /** The engine's latest counters; undefined before the first report since its start. */
  #counters: string | undefined;
  /** The number of steps that counters or answers have shown. */
  #steps = 0;
  #starting = true;
  #owed = 0;
  /** The latest possible start of the running step. */
  #stepMs = 0;
  #cancel: () => void = () => {};

  constructor(http: EngineHttp, dialect: EngineDialect, options: EngineWatchOptions, clock: Clock) {
    this.#http = http;
    this.#dialect = dialect;
    this.#options = options;
    this.#clock = clock;
  }

  /**
   * The engine's step counter. An unreachable engine makes no steps, and neither does one that answers nothing at all.
   * Undefined for any other engine without counters, which may prefill a long prompt without a sign of progress.
   */
  get steps(): EngineSteps | undefined {
    const { stepTimeoutMs, startTimeoutMs } = this.#options;
    const made = this.#steps;
    if (this.#gone) return { made, inFlight: 1, down: true };
    if (this.#silent) return { made, inFlight: Math.max(1, this.#owed), silent: true };
    if (this.#counters === undefined) return undefined;
    return { made, inFlight: this.#owed, stepTimeoutMs, ...(this.#starting && { startTimeoutMs }) };
  }

  /**
   * Calls `listener` whenever the engine's counters have changed or it is trusted to be in the middle of a step; for an
   * engine without counters, whenever it answers. The returned function unsubscribes.
   */
  onMove(listener: () => void): () => void {
    if (this.#listeners.size === 0) this.#stepMs = this.#clock.nowMs();
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Counts a step in flight until `work` has settled. */
  async owed<T>(work: Promise<T>): Promise<T> {
    this.#owed += 1;
    try {
      return await work;
    } finally {
      this.#owed -= 1;
    }
  }

  /** Records a step of the engine: a piece of an answer has arrived. */
  stepped(): void {
    this.#steps += 1;
    this.#starting = false;
    this.#silent = false;
  }

  start(): void {
    void this.#poll();
  }

  close(): void {
    this.#closing.abort();
    this.#cancel();
  }

  async #poll(): Promise<void> {
    const before = this.load;
    const { signal } = this.#closing;
    const [stepsBefore, owedBefore] = [this.#steps, this.#owed];
    let failure: unknown;
    this.load = await readLoad(this.#http, this.#dialect, signal).catch((error: unknown) => {
      failure = error;
      return undefined;
    });
    if (signal.aborted) return;
    // A connection may fail once where the engine closes an idle one; nothing listens where it is refused.
    const wasUnreachable = this.#isUnreachable;
    this.#isUnreachable = isUnreachable(failure);
    this.#gone = this.#isUnreachable && (wasUnreachable || isRefused(failure));
    const mayBeSilent = failure !== undefined && !this.#isUnreachable && owedBefore > 0;
    const isSilent = mayBeSilent && !(await this.#answersHealth(signal)) && this.#owed > 0;
    this.#silent = (isSilent || (this.#silent && failure !== undefined)) && this.#steps === stepsBefore;
    if (signal.aborted) return;
    const counters = this.load?.counters;
    this.#count(counters, failure === undefined);
    if (counters !== undefined && before?.counters !== counters) this.#stepMs = this.#clock.nowMs();
    const inStep = this.#clock.nowMs() - this.#stepMs < this.#options.stepTimeoutMs;
    const answers = failure === undefined;
    const hasMoved = counters === undefined ? answers : before && before.counters !== counters;
    if (hasMoved || (answers && inStep)) {
      this.moves += 1;
      for (const listener of this.#listeners) listener();
    }
    this.#cancel = this.#clock.after(this.#options.loadIntervalMs, () => void this.#poll());
  }

  async #answersHealth(signal: AbortSignal): Promise<boolean> {
    const request = { path: this.#dialect.paths.health, timeoutMs: HEALTH_TIMEOUT_MS };
    return this.#http.fetch(request, signal).then(
      () => true,
      () => false,
    );
  }

  /** Updates the engine's counters, undefined if it reported none; an engine that was restarted starts counting again. */
  #count(counters: string | undefined, answers: boolean): void {
    if (this.#gone) this.#starting = true;
    if (counters !== undefined && this.#counters !== undefined && counters !== this.#counters) this.stepped();
    // An engine that does not answer in time still counts.
    if (answers || this.#gone) this.#counters = counters;
  }
}
