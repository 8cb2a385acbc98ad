import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { ReplyUnderWay } from "../request-context.ts";

/** A running answer; its signal is aborted when its caller has left. */
export type RunningAnswer = {
  readonly signal: AbortSignal;
  /** Whether the answer was ended because its key was. */
  readonly keyEnded: boolean;
  /**
   * When the caller left, in milliseconds of the monotonic clock; undefined until then, and if all answers were
   * stopped.
   */
  readonly leftMs: number | undefined;
  /** Aborts the signal, for example if the client does not read. */
  abort(): void;
};

class Entry implements RunningAnswer {
  readonly keyId: string;
  keyEnded: boolean;
  leftMs: number | undefined;
  readonly #controller = new AbortController();
  readonly #leftAtMs: () => number | undefined;

  /**
   * Begins the answer for a key, which may have ended already. `leftAtMs` returns the time at which the caller left:
   * now.
   */
  constructor(keyId: string, keyEnded: boolean, leftAtMs: () => number | undefined) {
    this.keyId = keyId;
    this.keyEnded = keyEnded;
    this.#leftAtMs = leftAtMs;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(): void {
    this.leftMs ??= this.#leftAtMs();
    this.#controller.abort();
  }
}

/**
 * The running answers. Each ends when its caller leaves or when all are stopped. It does not use `AbortSignal.any` over
 * one signal that lives as long as the process: Node 20 and 24 retain every signal derived from it.
 */
export class RunningAnswers {
  readonly #running = new Set<Entry>();
  readonly #mustEnd: (keyId: string) => boolean;
  /** Returns when an answer that ends now was left; undefined if all are stopped. */
  readonly #leftAtMs: () => number | undefined;
  #stopped = false;

  /** `mustEnd` returns whether the running answers of a key have to end; default: none has. */
  constructor(clock: Pick<Clock, "nowMs">, mustEnd: (keyId: string) => boolean = () => false) {
    this.#leftAtMs = () => (this.#stopped ? undefined : clock.nowMs());
    this.#mustEnd = mustEnd;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Follows `response`, the reply to the owner of a key, until it is closed. Fastify's own `request.signal` fires as
   * soon as a body has been read, and its `onRequestAbort` does not fire after that.
   */
  begin(response: ReplyUnderWay, keyId: string): RunningAnswer {
    const entry = new Entry(keyId, this.#mustEnd(keyId), this.#leftAtMs);
    if (response.destroyed || this.#stopped || entry.keyEnded) entry.abort();
    else {
      this.#running.add(entry);
      response.on("close", () => {
        this.#running.delete(entry);
        if (response.writableFinished) return;
        entry.abort();
      });
    }
    return entry;
  }

  /** Checks all keys again after a change, and ends the running answers of ended keys. */
  keysChanged(): void {
    for (const entry of this.#running) {
      if (entry.signal.aborted || !this.#mustEnd(entry.keyId)) continue;
      entry.keyEnded = true;
      entry.abort();
    }
  }

  /** Ends all running answers, and every later one at once. */
  stop(): void {
    this.#stopped = true;
    for (const entry of this.#running) entry.abort();
  }
}
