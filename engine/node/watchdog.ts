import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { EngineSteps } from "../backend.ts";

/** Looks per `stallMs`. */
const LOOKS = 4;

export type WatchdogOptions = {
  readonly clock: Clock;
  /** How long steps may be in flight of which none is made. */
  readonly stallMs: number;
  /** The engine's pulse, where it has one. */
  readonly steps: () => EngineSteps | undefined;
  readonly onStall: () => void;
  /** Steps are made again. */
  readonly onRecover: () => void;
  /** Gives an engine that is out of service and idle something to do, so that it can show that it moves. */
  readonly probe: () => void;
};

/** Watches that running work moves. An engine that does not count its steps is never found fault with. */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #cancel: (() => void) | undefined;
  #lastMade: number | undefined;
  #lookedMs = 0;
  #stillMs = 0;
  #stalled = false;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** For how long running work has seen no step, in milliseconds. */
  get stepAgeMs(): number {
    return this.#stillMs;
  }

  start(): void {
    this.#lookedMs = this.#options.clock.nowMs();
    this.#lastMade = this.#options.steps()?.made;
    this.#arm();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock, stallMs } = this.#options;
    this.#cancel = clock.after(stallMs / LOOKS, () => {
      this.#arm();
      this.#look();
    });
  }

  #look(): void {
    const { clock, stallMs, steps, onStall, onRecover, probe } = this.#options;
    const now = clock.nowMs();
    // A process that was itself held up has not watched for all of that time.
    const watchedMs = Math.min(now - this.#lookedMs, (2 * stallMs) / LOOKS);
    this.#lookedMs = now;
    const { made, inFlight = 0 } = steps() ?? {};
    const moved = made !== this.#lastMade;
    this.#lastMade = made;
    if (made === undefined || moved) {
      this.#stillMs = 0;
      if (!this.#stalled) return;
      this.#stalled = false;
      onRecover();
    } else if (inFlight === 0) {
      this.#stillMs = 0;
      if (this.#stalled) probe();
    } else {
      this.#stillMs += watchedMs;
      if (this.#stalled || this.#stillMs < stallMs) return;
      this.#stalled = true;
      onStall();
    }
  }
}
