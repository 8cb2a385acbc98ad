import type { StopOrders } from "../deploy/runtime/process/stop-orders.ts";
import { onAbort } from "../deploy/runtime/time/abort.ts";

/** The state of a gateway in Envoy's words. A gateway whose health was failed by hand says DRAINING, too. */
export type ServerState = "LIVE" | "DRAINING" | "PRE_INITIALIZING";

/**
 * Knows what a gateway has been told to do, by signals and by its admin listener. It knows no sockets: `main.ts`
 * follows its signals.
 */
export class Lifecycle {
  readonly #drain = new AbortController();
  readonly #orders: StopOrders;
  #graceful = false;
  #listens = false;
  #healthFailed = false;

  /** Makes a lifecycle that follows `orders`: a gateway that they tell to end drains gracefully first. */
  constructor(orders: StopOrders) {
    this.#orders = orders;
    onAbort(orders.stop, () => this.drainListeners(true));
  }

  /** The signal that is aborted when the gateway is no longer to be sent anything; `/ready` says so from then on. */
  get drain(): AbortSignal {
    return this.#drain.signal;
  }

  /**
   * The signal that is aborted when the process is to end as soon as its answers are complete; `drain` is aborted by
   * then.
   */
  get stop(): AbortSignal {
    return this.#orders.stop;
  }

  /** The signal that is aborted when running answers have to end now. */
  get hardStop(): AbortSignal {
    return this.#orders.stopNow;
  }

  /**
   * Whether draining goes on taking connections for a while, so that load balancers in front can notice first. The
   * order that began the draining decides; one to end the process leaves the rest of that while.
   */
  get graceful(): boolean {
    return this.#graceful;
  }

  /**
   * Returns the state of the gateway. `initialized` says whether any model can be served; it counts once the gateway listens
   * to callers.
   */
  state(initialized: boolean): ServerState {
    if (this.#drain.signal.aborted || this.#healthFailed) return "DRAINING";
    return initialized && this.#listens ? "LIVE" : "PRE_INITIALIZING";
  }

  /** Notes that the gateway listens to callers, with all that it needs for them. */
  listening(): void {
    this.#listens = true;
  }

  /**
   * Begins to drain as Envoy's `/drain_listeners` does: the process stays until it is told to end. A gateway that
   * drains already goes on as it does.
   */
  drainListeners(graceful: boolean): void {
    if (this.#drain.signal.aborted) return;
    this.#graceful = graceful;
    this.#drain.abort();
  }

  /** Ends the process as SIGTERM does. A second order, some time after the first, cuts what still runs. */
  quit(): void {
    this.#orders.order();
  }

  /** Ends the process at once, as nobody waits for it any more. */
  quitNow(): void {
    this.#orders.orderNow();
  }

  /** Whether health was failed by hand. */
  get healthFailed(): boolean {
    return this.#healthFailed;
  }

  /** Sets whether `/ready` says that the gateway is not ready, whatever its state. */
  failHealth(failed: boolean): void {
    this.#healthFailed = failed;
  }
}
