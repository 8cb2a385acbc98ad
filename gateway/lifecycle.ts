import type { StopOrders } from "../deploy/runtime/process/stop-orders.ts";
import { onAbort } from "../deploy/runtime/time/abort.ts";

/** State of a gateway in Envoy's terms. A gateway whose health check was failed by an operator is DRAINING, too. */
export type ServerState = "LIVE" | "DRAINING" | "PRE_INITIALIZING";

/**
 * The orders that a gateway has received from signals and its admin listener. It holds no sockets: `main.ts` acts on
 * its signals.
 */
export class Lifecycle {
  readonly #drain = new AbortController();
  readonly #orders: StopOrders;
  #graceful = false;
  #listens = false;
  #healthFailed = false;

  /** Follows `orders`: the order to stop drains gracefully first. */
  constructor(orders: StopOrders) {
    this.#orders = orders;
    onAbort(orders.stop, () => this.drainListeners(true));
  }

  /** Aborted when the gateway should receive no more requests; `/ready` fails from then on. */
  get drain(): AbortSignal {
    return this.#drain.signal;
  }

  /** Aborted when the process should exit once its answers are complete; `drain` is aborted by then. */
  get stop(): AbortSignal {
    return this.#orders.stop;
  }

  /** Aborted when running answers have to end now. */
  get hardStop(): AbortSignal {
    return this.#orders.stopNow;
  }

  /**
   * Whether draining accepts connections for the grace time, so that load balancers in front can react. The order that
   * began the draining decides; an order to exit ends the grace time.
   */
  get graceful(): boolean {
    return this.#graceful;
  }

  /**
   * Returns the state of the gateway. `initialized` is true if any model can be served; it counts once the gateway
   * listens.
   */
  state(initialized: boolean): ServerState {
    if (this.#drain.signal.aborted || this.#healthFailed) return "DRAINING";
    return initialized && this.#listens ? "LIVE" : "PRE_INITIALIZING";
  }

  /** Records that the public listeners are open and all dependencies are ready. */
  listening(): void {
    this.#listens = true;
  }

  /**
   * Begins to drain as Envoy's `/drain_listeners` does: the process stays until an order to stop. No effect if the
   * gateway drains already.
   */
  drainListeners(graceful: boolean): void {
    if (this.#drain.signal.aborted) return;
    this.#graceful = graceful;
    this.#drain.abort();
  }

  /** Stops the process as SIGTERM does. A second, later order ends running answers. */
  quit(): void {
    this.#orders.order();
  }

  /** Stops the process at once. */
  quitNow(): void {
    this.#orders.orderNow();
  }

  get healthFailed(): boolean {
    return this.#healthFailed;
  }

  /** Sets whether `/ready` fails regardless of the state. */
  failHealth(failed: boolean): void {
    this.#healthFailed = failed;
  }
}
