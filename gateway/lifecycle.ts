/** A second order to end is only meant as one after this time: Ctrl-C reaches a child from the terminal and from npm. */
const SECOND_ORDER_AFTER_MS = 500;

/** Envoy's words. A gateway whose health was failed by hand says DRAINING, too. */
export type ServerState = "LIVE" | "DRAINING" | "PRE_INITIALIZING";

/**
 * What a gateway has been told to do, by signals and by its admin listener. It knows no sockets: `main.ts` follows its
 * signals.
 */
export class Lifecycle {
  readonly #drain = new AbortController();
  readonly #stop = new AbortController();
  readonly #hardStop = new AbortController();
  readonly #nowMs: () => number;
  #graceful = false;
  #healthFailed = false;
  #firstOrderMs: number | undefined;

  /** `nowMs`: monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Aborted when no new connections shall be taken any more. */
  get drain(): AbortSignal {
    return this.#drain.signal;
  }

  /** Aborted when the process shall end as soon as its answers are complete; `drain` is aborted then, too. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  /** Aborted when running answers must end now. */
  get hardStop(): AbortSignal {
    return this.#hardStop.signal;
  }

  /** Whether draining shall go on taking connections for a while, so that those in front can notice first. */
  get graceful(): boolean {
    return this.#graceful && !this.#stop.signal.aborted;
  }

  /** `initialized`: whether any model can be served. */
  state(initialized: boolean): ServerState {
    if (this.#drain.signal.aborted || this.#healthFailed) return "DRAINING";
    return initialized ? "LIVE" : "PRE_INITIALIZING";
  }

  /** As Envoy's `/drain_listeners`: the process stays until it is told to end. */
  drainListeners(graceful: boolean): void {
    if (!this.#drain.signal.aborted) this.#graceful = graceful;
    this.#drain.abort();
  }

  /** As SIGTERM. A second order, some time after the first, cuts what still runs. */
  quit(): void {
    const nowMs = this.#nowMs();
    if (this.#firstOrderMs !== undefined && nowMs - this.#firstOrderMs > SECOND_ORDER_AFTER_MS) this.#hardStop.abort();
    this.#firstOrderMs ??= nowMs;
    this.#drain.abort();
    this.#stop.abort();
  }

  /** Nobody waits for this process any more. */
  quitNow(): void {
    this.#drain.abort();
    this.#stop.abort();
    this.#hardStop.abort();
  }

  /** Whether health was failed by hand. */
  get healthFailed(): boolean {
    return this.#healthFailed;
  }

  /** Whether `/ready` shall say that the gateway is not, whatever its state. */
  failHealth(failed: boolean): void {
    this.#healthFailed = failed;
  }
}
