import { waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineError } from "../errors.ts";
import type { GenerationCall } from "./generation-call.ts";

/**
 * Knows the Generate calls of a node that are not over: those that the backend works on, and those whose last words are
 * still on their way.
 */
export class OpenCalls {
  readonly #clock: Clock;
  readonly #running = new Set<GenerationCall>();
  readonly #unsent = new Set<GenerationCall>();
  #idleListeners: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number of calls whose backend has not let go yet. */
  get running(): number {
    return this.#running.size;
  }

  /** The number of running calls that wait for a slow reader. */
  get paused(): number {
    let count = 0;
    for (const call of this.#running) if (call.paused) count += 1;
    return count;
  }

  /** Takes in a call that has just arrived. */
  begin(call: GenerationCall): void {
    this.#running.add(call);
    this.#unsent.add(call);
  }

  /** Notes that the backend has let go of the call. */
  ended(call: GenerationCall): void {
    this.#running.delete(call);
    this.#tellIdle();
  }

  /** Notes that the stream of the call is closed: all has been sent, or the caller has left. */
  closed(call: GenerationCall): void {
    this.#unsent.delete(call);
    this.#tellIdle();
  }

  /**
   * Ends running calls with an error that their callers hear at once: all of them, or those whose requests are `meant`.
   */
  stopAll(error: EngineError, meant: (request: GenerateRequest) => boolean = () => true): void {
    for (const call of this.#running) if (meant(call.request)) call.stop(error);
  }

  /**
   * Resolves once no generation runs and none has words still to send, and otherwise after `timeoutMs` milliseconds or
   * as soon as `cutOff` is aborted. Never rejects.
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
