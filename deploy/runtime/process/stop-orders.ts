/**
 * The time, in milliseconds, after the first order to end from which on another one is meant as a second: Ctrl-C
 * reaches a process from the terminal and from npm at once.
 */
const SECOND_ORDER_AFTER_MS = 500;

/**
 * Knows what a process has been told about its end: the first order lets it finish what runs, a second one cuts that
 * off.
 */
export class StopOrders {
  readonly #stop = new AbortController();
  readonly #stopNow = new AbortController();
  readonly #nowMs: () => number;
  #firstOrderMs: number | undefined;

  /** Starts without any order. `nowMs` reads a monotonic clock, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The signal that is aborted when the process shall take nothing new and end as soon as what runs is complete. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  /** The signal that is aborted when what still runs must end now; `stop` is aborted before it. */
  get stopNow(): AbortSignal {
    return this.#stopNow.signal;
  }

  /** Takes an order to end, such as SIGTERM. One that comes more than half a second after the first cuts what runs. */
  order(): void {
    const nowMs = this.#nowMs();
    this.#firstOrderMs ??= nowMs;
    if (nowMs - this.#firstOrderMs > SECOND_ORDER_AFTER_MS) this.orderNow();
    else this.#stop.abort();
  }

  /** Ends everything now: nobody waits for this process any more. */
  orderNow(): void {
    this.#stop.abort();
    this.#stopNow.abort();
  }

  /**
   * Takes SIGINT and SIGTERM for orders, and for the last one that the supervisor at the other end of the channel has
   * gone.
   */
  obeySignals(): void {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => this.order());
    process.on("disconnect", () => this.orderNow());
  }
}
