import { backOffMs } from "./retry-back-off.ts";
import type { RetryBudget, RetryPermit } from "./retry-budget.ts";
import type { BackOffSettings } from "./retry-settings.ts";

/** Where a request stands with its tries. It only ever moves down this list of states. */
export type RetryState =
  /** No try has failed yet. A failure may be repeated. */
  | { readonly at: "first" }
  /**
   * A failed try is being repeated, the wait before it included. `permit` is its place in the retry budget of the
   * cluster; undefined where the try is over, or where it costs none because no engine had worked on the request.
   */
  | { readonly at: "retrying"; readonly permit: RetryPermit | undefined }
  /** Part of an answer has been passed on: the answer belongs to one engine, whose failure is the answer's failure. */
  | { readonly at: "committed" }
  /** The request has its answer, or has failed for good. */
  | { readonly at: "over" };

/** What deciding about the retries of one request goes by. */
export type RetriesOptions = {
  /** The most tries after the first one. */
  readonly numRetries: number;
  /** The settings of how long to wait before each retry. */
  readonly backOff: BackOffSettings;
  /** The retry budget of the cluster. */
  readonly budget: RetryBudget;
  /** The most tries after the first one of a request that is patient. */
  readonly patientRetries: number;
  /** The retries of patient requests at once, in percent of the cluster's requests, as for answers that are continued. */
  readonly patientPercent: number;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/** What deciding about one more try goes by. */
export type FailedTry = {
  /** Whether an endpoint is left that has not had its try. */
  readonly hasUntried: boolean;
  /** Whether no engine had worked on the request: then a repeated try takes no place in the budget. */
  readonly untouched: boolean;
  /**
   * Whether an engine was lost and the request may wait for another: it is tried again as answers are continued that have
   * begun.
   */
  readonly patient: boolean;
  /** The number of requests of the cluster that run or wait, this one included. */
  readonly activeAndPending: number;
};

/**
 * Decides for one request whether a failed try is repeated, and holds the place in the retry budget that this takes.
 */
export class Retries {
  readonly #options: RetriesOptions;
  #state: RetryState = { at: "first" };
  #count = 0;

  constructor(options: RetriesOptions) {
    this.#options = options;
  }

  /** Where the request stands with its tries. */
  get state(): RetryState {
    return this.#state;
  }

  /** Notes that part of an answer is passed on: from now on nothing is tried again. */
  commit(): void {
    this.#moveTo({ at: "committed" });
  }

  /** Notes that the try that runs is over. If it was a repeated one, its place in the budget is free again. */
  tryEnded(): void {
    if (this.#state.at === "retrying") this.#moveTo({ at: "retrying", permit: undefined });
  }

  /**
   * Decides about one more try, and takes what it needs. Returns how long to wait before it, in milliseconds, or
   * undefined where there shall be none. What no engine has worked on costs nothing to send again, as with gRPC's
   * transparent retries.
   */
  repeat({ hasUntried, untouched, patient, activeAndPending }: FailedTry): number | undefined {
    const { numRetries, patientRetries, patientPercent, backOff, budget, random } = this.#options;
    const most = patient ? Math.max(numRetries, patientRetries) : numRetries;
    if (this.#state.at === "committed" || this.#count >= most || !(hasUntried || patient)) return undefined;
    const take = () =>
      patient ? budget.tryContinue(activeAndPending, patientPercent) : budget.tryRetry(activeAndPending);
    const permit = untouched ? undefined : take();
    if (!untouched && !permit) return undefined;
    this.#count += 1;
    this.#moveTo({ at: "retrying", permit });
    return backOffMs(this.#count, backOff, random);
  }

  /** Notes that the request is over, however it ended: its place in the budget is free again. */
  end(): void {
    this.#moveTo({ at: "over" });
  }

  #moveTo(state: RetryState): void {
    if (this.#state.at === "retrying") this.#state.permit?.release();
    this.#state = state;
  }
}
