import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { ReplyUnderWay } from "../record/request-context.ts";

/** A running answer; its signal is aborted when its caller has left. */
export type RunningAnswer = {
  readonly signal: AbortSignal;
  /** Whether the answer was ended because its key was. */
  readonly keyEnded: boolean;
  /** When the caller left, in milliseconds of the monotonic clock; undefined until then, and if all were stopped. */
  readonly leftMs: number | undefined;
  /** Aborts the signal, for example if the client does not read. */
  abort(): void;
};

type Entry = { -readonly [Field in keyof RunningAnswer]: RunningAnswer[Field] } & { readonly keyId: string };

/**
 * The running answers. Each ends when its caller leaves or when all are stopped. It does not use `AbortSignal.any` over
 * one signal that lives as long as the process: Node 20 and 24 retain every signal derived from it.
 */
export class RunningAnswers {
  readonly #running = new Set<Entry>();
  readonly #mustEnd: (keyId: string) => boolean;
  readonly #clock: Pick<Clock, "nowMs">;
  stopped = false;

  /** `mustEnd` returns whether the running answers of a key have to end; default: none has. */
  constructor(clock: Pick<Clock, "nowMs">, mustEnd: (keyId: string) => boolean = () => false) {
    this.#clock = clock;
    this.#mustEnd = mustEnd;
  }

  /**
   * Follows `response`, the reply to the owner of a key, until it is closed. Fastify's own `request.signal` fires as
   * soon as a body has been read, and its `onRequestAbort` does not fire after that.
   */
  begin(response: ReplyUnderWay, keyId: string): RunningAnswer {
    const controller = new AbortController();
    const entry: Entry = {
      ...{ keyId, signal: controller.signal, keyEnded: this.#mustEnd(keyId), leftMs: undefined },
      abort: () => {
        if (!this.stopped) entry.leftMs ??= this.#clock.nowMs();
        controller.abort();
      },
    };
    if (response.destroyed || this.stopped || entry.keyEnded) entry.abort();
    else {
      this.#running.add(entry);
      response.on("close", () => {
        this.#running.delete(entry);
        if (!response.writableFinished) entry.abort();
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
    this.stopped = true;
    for (const entry of this.#running) entry.abort();
  }
}
