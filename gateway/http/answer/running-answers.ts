import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { ReplyUnderWay } from "../request-context.ts";

/** One answer under way; its signal is aborted when nobody waits for it any more. */
export type RunningAnswer = {
  /** The signal that is aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Whether the answer was ended because its key was. */
  readonly keyEnded: boolean;
  /**
   * The moment since which nobody waits for the answer, in milliseconds of the monotonic clock; undefined while somebody
   * does, and where all answers had to stop.
   */
  readonly leftMs: number | undefined;
  /** Aborts the signal, for example where the client does not read. */
  abort(): void;
};

/** An answer under way, as all of them see it. */
class Entry implements RunningAnswer {
  readonly keyId: string;
  keyEnded: boolean;
  leftMs: number | undefined;
  readonly #controller = new AbortController();
  readonly #leftAtMs: () => number | undefined;

  /** Begins the answer for a key, which may have ended already. `leftAtMs` tells when nobody waits any more: now. */
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
 * Holds the answers under way, each ended by its caller's leaving or by all of them having to stop. Not
 * `AbortSignal.any` over one signal that lives as long as the process: Node 20 and 24 keep every signal that was ever
 * made from it.
 */
export class RunningAnswers {
  readonly #running = new Set<Entry>();
  readonly #mustEnd: (keyId: string) => boolean;
  /** Returns the moment at which an answer that ends now was left; undefined where all have to stop. */
  readonly #leftAtMs: () => number | undefined;
  #stopped = false;

  /** Holds nothing at first. `mustEnd` says whether what runs for a key has to end; by default nothing has. */
  constructor(clock: Pick<Clock, "nowMs">, mustEnd: (keyId: string) => boolean = () => false) {
    this.#leftAtMs = () => (this.#stopped ? undefined : clock.nowMs());
    this.#mustEnd = mustEnd;
  }

  /** Whether all answers have been told to stop. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Follows `response`, the reply to the owner of a key, until it is closed. Fastify's own `request.signal` fires as
   * soon as a body has been read, and its `onRequestAbort` not at all after that.
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

  /** Looks at all keys again, as some have changed, and ends the answers that run for those that ended. */
  keysChanged(): void {
    for (const entry of this.#running) {
      if (entry.signal.aborted || !this.#mustEnd(entry.keyId)) continue;
      entry.keyEnded = true;
      entry.abort();
    }
  }

  /** Ends all answers that run, and every one that begins from now on. */
  stop(): void {
    this.#stopped = true;
    for (const entry of this.#running) entry.abort();
  }
}
