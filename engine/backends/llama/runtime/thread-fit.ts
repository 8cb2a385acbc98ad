/** The step time over which threads are judged, in milliseconds. */
const WINDOW_MS = 2_000;
/** The part of their time that threads must compute: below it they wait for one of them that has no core. */
const LEAST_SHARE = 0.5;
/** The step time after which more threads are tried again, in milliseconds; each failed trial doubles it. */
const TRIAL_MS = 60_000;
const MAX_TRIAL_MS = 3_600_000;

/**
 * Fits the number of threads to the cores that they get, as in a container with a quota or on a busy machine: llama.cpp's
 * threads wait for each other actively, so that one without a core holds up all.
 */
export class ThreadFit {
  readonly #most: number;
  /** The number of threads of the next step. */
  count: number;
  #wallMs = 0;
  #cpuMs = 0;
  #trialMs = TRIAL_MS;
  #untilTrialMs = TRIAL_MS;

  constructor(most: number) {
    this.#most = most;
    this.count = most;
  }

  /** Takes the wall time and the processor time of a step. Returns whether `count` has changed. */
  observe(wallMs: number, cpuMs: number): boolean {
    this.#wallMs += wallMs;
    this.#cpuMs += cpuMs;
    if (this.#wallMs < WINDOW_MS) return false;
    const [cores, passedMs, before] = [this.#cpuMs / this.#wallMs, this.#wallMs, this.count];
    this.#wallMs = 0;
    this.#cpuMs = 0;
    if (before > 1 && cores < LEAST_SHARE * before) {
      if (before === this.#most && this.#untilTrialMs <= 0) this.#trialMs = Math.min(2 * this.#trialMs, MAX_TRIAL_MS);
      this.#untilTrialMs = this.#trialMs;
      this.count = Math.max(1, Math.min(before - 1, Math.floor(cores)));
    } else if (before < this.#most) {
      this.#untilTrialMs -= passedMs;
      if (this.#untilTrialMs <= 0) this.count = this.#most;
    }
    return this.count !== before;
  }
}
