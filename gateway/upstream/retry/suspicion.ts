import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { sleep } from "../../../deploy/runtime/time/sleep.ts";
import type { Death, KnownLoss, RequestsOfDeath, Verdict } from "./request-of-death.ts";
import { clientClosed } from "./retry-errors.ts";
import type { RequestOfDeathSettings } from "./retry-settings.ts";

/** What the suspicion of one request goes by. */
export type SuspicionOptions = {
  /** Knows the requests of all callers that kill engines. */
  readonly deaths: RequestsOfDeath;
  /** A keyed digest of the whole prompt, by which the request is known when it comes again. */
  readonly identity: string;
  /** The settings by which a request is found to kill engines. */
  readonly settings: RequestOfDeathSettings;
  /** The clock of the request. */
  readonly clock: Clock;
  /** Ends all waits: the request is over for its caller. */
  readonly signal: AbortSignal;
};

/** Knows of one request whether it may be what the endpoints were lost by that worked on it. */
export class Suspicion {
  readonly #options: SuspicionOptions;
  /** The losses that the request has been through, in their order; undefined as long as there are none. */
  #losses: Set<KnownLoss> | undefined;

  constructor(options: SuspicionOptions) {
    this.#options = options;
  }

  /** The judgement on the request, now. */
  get verdict(): Verdict {
    const { deaths, identity, clock } = this.#options;
    return deaths.judge(identity, clock.nowMs());
  }

  /** Notes that the request has its answer: it is not suspected any more. */
  answered(): void {
    const { deaths, identity } = this.#options;
    deaths.answered(identity);
  }

  /**
   * Notes the death of an endpoint; `fellSilent` where its connection did not break. Resolves when the other requests
   * that were lost with it have been told of, to whether the death may be the doing of others: at once where the
   * connection broke, a little later where the silence of each had to be noticed.
   */
  async lost(death: Death, fellSilent: boolean): Promise<boolean> {
    const { deaths, identity, settings, clock, signal } = this.#options;
    this.#losses ??= new Set();
    this.#losses.add(deaths.killed(identity, death, clock.nowMs()));
    await (fellSilent ? sleep(clock, settings.oneDeathMs, signal) : setImmediate());
    return deaths.inDoubt(this.#losses);
  }

  /**
   * Resolves when the request may come again that is suspected along with others, and at once where it is not, to the
   * judgement on it. Throws where its caller is gone.
   */
  async stayAway(): Promise<"allowed" | "denied"> {
    const { clock, signal } = this.#options;
    for (;;) {
      const { verdict } = this;
      if (signal.aborted) throw clientClosed();
      if (typeof verdict === "string") return verdict;
      await sleep(clock, verdict.laterMs, signal);
    }
  }
}
