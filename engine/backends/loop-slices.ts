import { type FairItem, FairQueue } from "../../deploy/runtime/queue/fair-queue.ts";
import { throwIfLeft } from "../errors.ts";

type Waiting = FairItem & { readonly go: () => void };

/**
 * Schedules work on callers' texts on the main thread, which streams all tokens: one slice per tick of the event loop,
 * alternating between tenants. However many prompts are processed concurrently, other work of the loop waits for one
 * slice at most.
 */
export class LoopSlices {
  readonly #slices = new FairQueue<Waiting>();
  #armed = false;

  /** Resolves when the tenant may run a slice, which must not take longer than a few milliseconds. */
  next(tenant: string): Promise<void> {
    return new Promise((resolve) => {
      this.#slices.push({ key: tenant, cost: 1, go: resolve });
      this.#arm();
    });
  }

  /** Waits as `next` does. Throws `EngineError` if the caller has left meanwhile. */
  async nextUnlessLeft(tenant: string, signal: AbortSignal): Promise<void> {
    await this.next(tenant);
    throwIfLeft(signal);
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(() => {
      this.#armed = false;
      this.#slices.next()?.go();
      if (this.#slices.size > 0) this.#arm();
    });
  }
}
