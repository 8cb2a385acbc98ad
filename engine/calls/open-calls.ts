import { waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { EngineError } from "../errors.ts";
import type { GenerationCall } from "./generation-call.ts";

/** The generations of a node: those that the backend works on, and those whose last words are still on their way. */
export class OpenCalls {
  readonly #clock: Clock;
  readonly #running = new Set<GenerationCall>();
  readonly #unsent = new Set<GenerationCall>();
  #idleListeners: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls whose backend has not let go yet. */
  get running(): number {
    return this.#running.size;
  }

  /** Of those, the ones that wait for their readers. */
  get paused(): number {
    let count = 0;
    for (const call of this.#running) if (call.paused) count += 1;
    return count;
  }

  begin(call: GenerationCall): void {
    this.#running.add(call);
    this.#unsent.add(call);
  }

  /** The backend has let go. */
  ended(call: GenerationCall): void {
    this.#running.delete(call);
    this.#tellIdle();
  }

  /** The stream is closed: all has been sent, or the caller has left. */
  closed(call: GenerationCall): void {
    this.#unsent.delete(call);
    this.#tellIdle();
  }

  stopAll(error: EngineError): void {
    for (const call of this.#running) call.stop(error);
  }

  /**
   * Resolves once no generation runs and none has words still to send, and otherwise after `timeoutMs` milliseconds or as
   * soon as `cutOff` is aborted. Never rejects.
   */
  async whenIdle(timeoutMs: number, cutOff: AbortSignal): Promise<void> {
    if (this.#running.size + this.#unsent.size === 0) return;
    await waitUnlessAborted<void>(cutOff, (done) => {
      this.#idleListeners.push(done);
      return this.#clock.after(timeoutMs, done);
    });
  }

  #tellIdle(): void {
    if (this.#running.size + this.#unsent.size > 0) return;
    for (const resolve of this.#idleListeners.splice(0)) resolve();
  }
}
