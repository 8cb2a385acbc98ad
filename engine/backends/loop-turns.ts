import { FairTurns, type TurnItem } from "../../deploy/runtime/queue/fair-turns.ts";
import { throwIfLeft } from "./caller-left.ts";

type Waiting = TurnItem & { readonly go: () => void };

/**
 * Hands out turns of the event loop to work on callers' texts that is done on the thread which hands out everybody's
 * tokens: one slice at each turn, whoever asks, and in fair turns between tenants. So however many prompts are read at
 * once, what else the loop has to do waits for one slice at most.
 */
export class LoopTurns {
  readonly #turns = new FairTurns<Waiting>();
  #armed = false;

  /** Resolves when a slice of the tenant's may be done, which must not take longer than a few milliseconds. */
  next(tenant: string): Promise<void> {
    return new Promise((resolve) => {
      this.#turns.push({ key: tenant, cost: 1, go: resolve });
      this.#arm();
    });
  }

  /** Waits as `next` does. Throws `EngineError` where the caller has left meanwhile. */
  async nextUnlessLeft(tenant: string, signal: AbortSignal): Promise<void> {
    await this.next(tenant);
    throwIfLeft(signal);
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(() => {
      this.#armed = false;
      this.#turns.take()?.item.go();
      if (this.#turns.size > 0) this.#arm();
    });
  }
}
