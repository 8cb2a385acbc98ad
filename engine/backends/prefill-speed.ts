/**
 * The least uncached tokens of a prompt that shows the speed of a prefill: each prompt also costs some 60 ms of steps and
 * transport, in which a fast engine reads 700 tokens.
 */
const MIN_TOKENS = 4_000;
/** The longest wait before a prefill that counts as none, in seconds: about two steps of a busy engine. */
const MAX_QUEUE_SECONDS = 0.1;
/** What remains of the earlier sums at each further prompt: the last ten prompts dominate. */
const KEPT = 0.9;

export type Prefill = {
  readonly uncachedTokens: number;
  readonly seconds: number;
  /** The wait before the prefill; undefined if it cannot be separated from the prefill. */
  readonly queueSeconds: number | undefined;
};

/**
 * Measures the prefill speed of an engine as a sum of tokens over a sum of seconds, so that a prompt counts by its
 * length. Prompts that waited, and short ones, are left out.
 */
export class PrefillSpeed {
  #tokens = 0;
  #seconds = 0;

  /** Uncached prompt tokens per second; undefined before the first measurement. */
  get tokensPerSecond(): number | undefined {
    return this.#seconds > 0 ? this.#tokens / this.#seconds : undefined;
  }

  add({ uncachedTokens, seconds, queueSeconds = Number.POSITIVE_INFINITY }: Prefill): void {
    if (uncachedTokens < MIN_TOKENS || seconds <= 0 || queueSeconds > MAX_QUEUE_SECONDS) return;
    this.#tokens = KEPT * this.#tokens + uncachedTokens;
    this.#seconds = KEPT * this.#seconds + seconds;
  }
}
