import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";

/** What the patience of one request goes by. */
export type PatienceOptions = {
  /** Whether the caller is shown that the request waits. */
  readonly mayHold: boolean;
  /** The longest time, from the first loss on, in which the request is tried again, in milliseconds. */
  readonly holdMs: number;
  /** The addresses of the endpoints that are not to be asked now. */
  readonly tried: Set<string>;
  /** Returns the addresses of all endpoints of the cluster. */
  readonly addresses: () => Iterable<string>;
  /** The clock of the request. */
  readonly clock: Pick<Clock, "nowMs">;
};

/** A try that has failed. */
export type LostTry = {
  /** The address of the endpoint. */
  readonly address: string;
  /** What went wrong. */
  readonly failure: UpstreamFailure;
  /** Whether the loss may be the doing of other requests, or of something that takes endpoints without any. */
  readonly inDoubt: boolean;
};

/**
 * Knows for one request how long it is tried again where engines are lost before the first word of its answer. Its caller
 * loses nothing by another try, just as with an answer that has begun; with the few tries that other failures have,
 * engines that are replaced one after the other would fail it. A caller who is shown nothing meanwhile is soon told
 * where no engine could be had in the first place. What an engine was lost with alone is not sent there again: it may be
 * what the engine was lost by.
 */
export class Patience {
  readonly #options: PatienceOptions;
  /** The addresses of the endpoints that were lost with this request alone; undefined as long as there are none. */
  #alone: Set<string> | undefined;
  #sinceMs: number | undefined;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Whether the request has lost an engine and is still to be tried again. */
  get waits(): boolean {
    const { holdMs, clock } = this.#options;
    return this.#sinceMs !== undefined && clock.nowMs() - this.#sinceMs <= holdMs;
  }

  /** Notes a try that has failed. Returns whether the request is tried again, however many tries it has had. */
  failed({ address, failure, inDoubt }: LostTry): boolean {
    const { mayHold, addresses, clock } = this.#options;
    const wasWorkedOn = failure.workedMs !== undefined;
    if (!isLoss(failure) || !(mayHold || wasWorkedOn || this.#sinceMs !== undefined)) return false;
    this.#sinceMs ??= clock.nowMs();
    if (wasWorkedOn && !inDoubt) {
      this.#alone ??= new Set();
      this.#alone.add(address);
    }
    return this.waits && [...addresses()].some((one) => !this.#alone?.has(one));
  }

  /** Lets all endpoints be asked again but those that were lost with this request alone. */
  forgive(): void {
    const { tried } = this.#options;
    tried.clear();
    for (const address of this.#alone ?? []) tried.add(address);
  }
}

/** Returns whether the endpoint was lost or fell silent: one that says something has said it to the request. */
function isLoss({ ending: { kind } }: UpstreamFailure): boolean {
  return kind === "reset" || kind === "connect_failure" || kind === "stalled";
}
