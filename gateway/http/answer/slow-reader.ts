import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Flow } from "../../upstream/call/retry-boundary.ts";

export type SlowReaderOptions = {
  readonly clock: Pick<Clock, "after">;
  /** Milliseconds for which the reader may take no bytes while some are waiting. */
  readonly writeStallMs: number;
  /** Called when the reader has taken no bytes for `writeStallMs`. */
  readonly onStall: () => void;
  /** Called with true when the engine stream is paused for the reader, and with false when it resumes. */
  readonly onPaused: (paused: boolean) => void;
};

/** Pauses the engine stream of one slow reader, up to a time limit. */
export class SlowReader {
  readonly #options: SlowReaderOptions;
  #paused: Flow | undefined;
  #cancelStall = () => {};

  constructor(options: SlowReaderOptions) {
    this.#options = options;
  }

  get paused(): boolean {
    return this.#paused !== undefined;
  }

  /** Pauses the engine stream. Another engine may continue the answer while the reader is slow. */
  pause(flow: Flow): void {
    if (this.#paused === flow) return;
    flow.pause();
    const wasPaused = this.paused;
    this.#paused = flow;
    if (wasPaused) return;
    const { clock, writeStallMs, onPaused, onStall } = this.#options;
    onPaused(true);
    this.#cancelStall = clock.after(writeStallMs, () => {
      this.release();
      onStall();
    });
  }

  /** The reader has caught up: the engine stream resumes. */
  drained(): void {
    this.release()?.resume();
  }

  /** Forgets the paused engine stream, for example because the answer has ended, and returns it. */
  release(): Flow | undefined {
    const flow = this.#paused;
    if (!flow) return undefined;
    this.#cancelStall();
    this.#paused = undefined;
    this.#options.onPaused(false);
    return flow;
  }
}
