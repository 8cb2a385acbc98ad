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
type Entry = {
  readonly controller: AbortController;
  readonly keyId: string;
  keyEnded: boolean;
  leftMs: number | undefined;
};

/**
 * Holds the answers under way, each ended by its caller's leaving or by all of them having to stop. Not
 * `AbortSignal.any` over one signal that lives as long as the process: Node 20 and 24 keep every signal that was ever
 * made from it.
 */
export class RunningAnswers {
  readonly #running = new Set<Entry>();
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #mustEnd: (keyId: string) => boolean;
  #stopped = false;

  /** Holds nothing at first. `mustEnd` says whether what runs for a key has to end; by default nothing has. */
  constructor(clock: Pick<Clock, "nowMs">, mustEnd: (keyId: string) => boolean = () => false) {
    this.#clock = clock;
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
    const controller = new AbortController();
    const entry: Entry = { controller, keyId, keyEnded: this.#mustEnd(keyId), leftMs: undefined };
    if (response.destroyed || this.#stopped || entry.keyEnded) this.#end(entry);
    else {
      this.#running.add(entry);
      response.once("close", () => {
        this.#running.delete(entry);
        if (!response.writableFinished) this.#end(entry);
      });
    }
    return {
      signal: controller.signal,
      get keyEnded() {
        return entry.keyEnded;
      },
      get leftMs() {
        return entry.leftMs;
      },
      abort: () => this.#end(entry),
    };
  }

  /** Looks at all keys again, as some have changed, and ends the answers that run for those that ended. */
  keysChanged(): void {
    for (const entry of this.#running) {
      if (entry.controller.signal.aborted || !this.#mustEnd(entry.keyId)) continue;
      entry.keyEnded = true;
      this.#end(entry);
    }
  }

  /** Ends all answers that run, and every one that begins from now on. */
  stop(): void {
    this.#stopped = true;
    for (const entry of this.#running) this.#end(entry);
  }

  #end(entry: Entry): void {
    if (!this.#stopped) entry.leftMs ??= this.#clock.nowMs();
    entry.controller.abort();
  }
}
