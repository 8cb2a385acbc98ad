/** Milliseconds from which a further signal counts as the second: Ctrl-C comes from terminal and npm at once. */
const SECOND_ORDER_AFTER_MS = 500;

/** The stop signals of a process: the first one lets running work complete, a second one ends it. */
export class StopOrders {
  readonly #stop = new AbortController();
  readonly #stopNow = new AbortController();
  /** Aborted when the process should accept no work and exit once running work is complete. */
  readonly stop = this.#stop.signal;
  /** Aborted when running work must end now; `stop` is aborted before. */
  readonly stopNow = this.#stopNow.signal;
  readonly #nowMs: () => number;
  #firstOrderMs: number | undefined;

  /** `nowMs` reads a monotonic clock, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Handles a stop signal such as SIGTERM. One more than half a second after the first ends running work. */
  order(): void {
    const nowMs = this.#nowMs();
    this.#firstOrderMs ??= nowMs;
    if (nowMs - this.#firstOrderMs > SECOND_ORDER_AFTER_MS) this.orderNow();
    else this.#stop.abort();
  }

  orderNow(): void {
    this.#stop.abort();
    this.#stopNow.abort();
  }

  /** Handles SIGINT and SIGTERM as stop signals, and the loss of the supervisor's channel as the second one. */
  obeySignals(): void {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => this.order());
    process.on("disconnect", () => this.orderNow());
  }
}
