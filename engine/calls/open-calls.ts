import { waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineError } from "../errors.ts";
import type { GenerationCall } from "./generation-call.ts";

/** The open Generate calls of a node: those in the backend, and those whose last messages are being sent. */
export class OpenCalls {
  readonly #clock: Clock;
  readonly #running = new Set<GenerationCall>();
  readonly #unsent = new Set<GenerationCall>();
  #idleListeners: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get running(): number {
    return this.#running.size;
  }

  get paused(): number {
    return [...this.#running].filter(({ paused }) => paused).length;
  }

  begin(call: GenerationCall): void {
    this.#running.add(call);
    this.#unsent.add(call);
  }

  ended(call: GenerationCall): void {
    this.#running.delete(call);
    this.#checkIdle();
  }

  closed(call: GenerationCall): void {
    this.#unsent.delete(call);
    this.#checkIdle();
  }

  /** Ends running calls with an error that is sent at once: all of them, or those whose requests match `meant`. */
  stopAll(error: EngineError, meant: (request: GenerateRequest) => boolean = () => true): void {
    for (const call of this.#running) if (meant(call.request)) call.stop(error);
  }

  /** Resolves once all calls have ended and are sent, after `timeoutMs`, or when `cutOff` is aborted. */
  async whenIdle(timeoutMs: number, cutOff: AbortSignal): Promise<void> {
    if (this.#running.size + this.#unsent.size === 0) return;
    await waitUnlessAborted<void>(cutOff, (done) => {
      this.#idleListeners.push(done);
      return this.#clock.after(timeoutMs, done);
    });
  }

  #checkIdle(): void {
    if (this.#running.size + this.#unsent.size > 0) return;
    for (const resolve of this.#idleListeners.splice(0)) resolve();
  }
}
