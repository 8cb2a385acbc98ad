import type { ServerResponse } from "node:http";

/** One answer under way; its signal is aborted when nobody waits for it any more. */
export type RunningAnswer = {
  /** The signal that is aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Aborts the signal, for example where the client does not read. */
  abort(): void;
};

/**
 * Holds the answers under way, each ended by its caller's leaving or by all of them having to stop. Not
 * `AbortSignal.any` over one signal that lives as long as the process: Node 20 and 24 keep every signal that was ever
 * made from it.
 */
export class RunningAnswers {
  readonly #running = new Set<AbortController>();
  #stopped = false;

  /** Whether all answers have been told to stop. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Follows `response` until it is closed. Fastify's own `request.signal` fires as soon as a body has been read, and
   * its `onRequestAbort` not at all after that.
   */
  begin(response: ServerResponse): RunningAnswer {
    const controller = new AbortController();
    if (response.destroyed || this.#stopped) controller.abort();
    else {
      this.#running.add(controller);
      response.once("close", () => {
        this.#running.delete(controller);
        if (!response.writableFinished) controller.abort();
      });
    }
    return { signal: controller.signal, abort: () => controller.abort() };
  }

  /** Ends all answers that run, and every one that begins from now on. */
  stop(): void {
    this.#stopped = true;
    for (const controller of this.#running) controller.abort();
  }
}
