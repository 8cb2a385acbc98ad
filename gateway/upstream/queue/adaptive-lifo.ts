export type AdaptiveLifoSettings = {
  /** Milliseconds that those who are served may have waited: above it the queue is too slow. */
  readonly targetMs: number;
  /** How long it must be too slow without a break. */
  readonly intervalMs: number;
  /** Newest first, who has waited longer than this gives up. */
  readonly timeoutMs: number;
};

export const DEFAULT_ADAPTIVE_LIFO: AdaptiveLifoSettings = { targetMs: 5_000, intervalMs: 10_000, timeoutMs: 5_000 };

/**
 * Says when a queue is to be served newest first. A queue that nobody leaves quickly any more stands: in its order, everybody
 * would be served just before they give up. Newest first, some are served at once, and the others are told early. As in
 * CoDel, the shortest wait of an interval tells a queue that stands from one that had a burst; it is over when the queue
 * has been empty.
 */
export class AdaptiveLifo {
  readonly #settings: AdaptiveLifoSettings;
  /** Since when everybody has waited too long. */
  #slowSinceMs: number | undefined;
  #newestFirst = false;

  constructor(settings: AdaptiveLifoSettings) {
    this.#settings = settings;
  }

  get newestFirst(): boolean {
    return this.#newestFirst;
  }

  /** How long somebody may wait now, beside their own deadline. */
  get maxWaitMs(): number {
    return this.#newestFirst ? this.#settings.timeoutMs : Number.POSITIVE_INFINITY;
  }

  /** `longestWaitMs`: of those who wait; undefined when nobody does. */
  look(longestWaitMs: number | undefined, nowMs: number): void {
    if (longestWaitMs === undefined) {
      this.#slowSinceMs = undefined;
      this.#newestFirst = false;
      return;
    }
    if (this.#slowSinceMs === undefined && longestWaitMs > this.#settings.targetMs) this.#slowSinceMs = nowMs;
    if (this.#slowSinceMs !== undefined && nowMs - this.#slowSinceMs >= this.#settings.intervalMs)
      this.#newestFirst = true;
  }

  served(waitedMs: number): void {
    if (waitedMs <= this.#settings.targetMs) this.#slowSinceMs = undefined;
  }
}
