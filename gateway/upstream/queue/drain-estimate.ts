/** Share of the newest interval in the average: the last dozen or so count. */
const NEWEST_SHARE = 0.15;

/** Estimates when a queue will have served those who wait now, by how fast it has served the last ones. */
export class DrainEstimate {
  #intervalMs: number | undefined;
  #lastMs: number | undefined;

  /** Somebody who had waited was served. */
  served(nowMs: number): void {
    if (this.#lastMs !== undefined) {
      const intervalMs = nowMs - this.#lastMs;
      this.#intervalMs =
        this.#intervalMs === undefined ? intervalMs : this.#intervalMs + NEWEST_SHARE * (intervalMs - this.#intervalMs);
    }
    this.#lastMs = nowMs;
  }

  /** Nobody waits: how long it takes until the next one is served says nothing. */
  empty(): void {
    this.#lastMs = undefined;
  }

  /** Milliseconds until one more than `waiting` would be served; undefined while nothing is known. */
  waitMs(waiting: number, nowMs: number): number | undefined {
    if (this.#intervalMs === undefined) return undefined;
    // It may just have come to a stop.
    const sinceMs = this.#lastMs === undefined ? 0 : nowMs - this.#lastMs;
    return (waiting + 1) * Math.max(this.#intervalMs, sinceMs);
  }
}
