import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { ApiError } from "../errors.ts";
import type { ContinuationOutcome, ContinuationStats } from "../stats/continuation-stats.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";
import type { ClusterTraffic } from "./cluster-traffic.ts";
import type { ContinuationSettings } from "./continuation/continuation-settings.ts";
import type { ResumableAnswer } from "./continuation/resumable-answer.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { backOffMs } from "./retry/retry-back-off.ts";
import type { RetryPermit } from "./retry/retry-budget.ts";
import type { BackOffSettings } from "./retry/retry-settings.ts";

/**
 * The time between two looks at whether an endpoint is there that fits, in milliseconds. It is also about the time in
 * which the health checks get to know of one that was lost.
 */
export const LOOK_MS = 250;

/** What going on with the answers of one request goes by. */
export type GoingOnOptions = {
  /** The answer of the request. */
  readonly answer: ResumableAnswer;
  /** The traffic of the cluster whose endpoints go on with it. */
  readonly traffic: ClusterTraffic;
  /** The addresses of the endpoints that are not to be asked now. */
  readonly tried: Set<string>;
  /** Returns whether anything of the answer has reached its caller, so that it cannot begin anew. */
  readonly isCommitted: () => boolean;
  /** The settings on how answers outlive their engines. */
  readonly settings: ContinuationSettings;
  /** The settings of the wait between two tries to go on. */
  readonly backOff: BackOffSettings;
  /** The longest wait for a place on an endpoint that is there, in milliseconds. */
  readonly pendingMs: number;
  /** The clock of the request. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Counts what becomes of the answers of lost engines. */
  readonly stats: ContinuationStats;
};

/** An answer that has lost its engine, from then until another one goes on with it. */
type Broken = {
  /** The moment of the loss, in milliseconds of the monotonic clock. */
  readonly atMs: number;
  /** The place in the budget, given back when another engine goes on. */
  readonly permit: RetryPermit;
  /** The number of tries to go on that have failed. */
  failedTries: number;
};

/** Decides for one request whether, where and for how long another engine is to go on with its answer. */
export class GoingOn {
  readonly #options: GoingOnOptions;
  #broken: Broken | undefined;
  #error: ApiError | undefined;
  /** The addresses of the endpoints that were lost, or did not take the answer up; undefined as long as there are none. */
  #lost: Set<string> | undefined;

  constructor(options: GoingOnOptions) {
    this.#options = options;
  }

  /** The error that the caller gets where nobody goes on; undefined while the answer has not lost its engine. */
  get error(): ApiError | undefined {
    return this.#error;
  }

  /**
   * Decides after a failed try on the endpoint at `address`, where `mostInARow` endpoints may be lost without a new
   * token. Returns how long to wait before the next try, in milliseconds; undefined where the answer is not to be
   * continued.
   */
  after(failure: UpstreamFailure, address: string, mostInARow: number): number | undefined {
    this.#error ??= failure.error;
    if (failure.retriable) {
      this.#lost ??= new Set();
      this.#lost.add(address);
    }
    // What ends here would end on any endpoint.
    if (!this.#broken && !failure.retriable) return undefined;
    const refusal = this.#refusal(failure, mostInARow);
    if (refusal) {
      this.giveUp(refusal);
      return undefined;
    }
    const { answer, traffic, tried, settings, clock, backOff, random } = this.#options;
    if (answer.workedOn) tried.clear();
    tried.add(address);
    if (!this.#broken) {
      const permit = traffic.budget.tryContinue(traffic.admission.breaker.activeAndPending + 1, settings.budgetPercent);
      if (!permit) {
        this.giveUp("over_budget");
        return undefined;
      }
      this.#broken = { atMs: clock.nowMs(), permit, failedTries: 0 };
    }
    const { failedTries } = this.#broken;
    this.#broken.failedTries += 1;
    const { noEndpointHoldMs } = traffic.cluster.settings.circuitBreakers;
    if (!this.#avoidUnfit()) {
      if (!this.#mayBeginAnew()) return this.lookAgainMs(clock.nowMs() - this.#broken.atMs, noEndpointHoldMs);
      this.giveUp("no_endpoint");
      return undefined;
    }
    return failedTries === 0 ? 0 : backOffMs(failedTries, backOff, random);
  }

  /** Returns whether the endpoint can go on with the answer, as far as its node has said. */
  fits(endpoint: Endpoint): boolean {
    const { answer, traffic } = this.#options;
    const description = endpoint.description(traffic.cluster.model);
    if (!description?.capabilities.includes(Capability.CONTINUATION)) return false;
    return description.revision === "" || description.revision === answer.revision;
  }

  /**
   * Returns how long to wait until it is looked anew for an endpoint that fits, in milliseconds: all may be asked again
   * then. Returns undefined where none of the cluster would fit, be it well or not, and where the answer has waited for
   * `waitedMs` and that is long enough: more than for a place on an endpoint that is there, and than `holdMs`, by
   * default 0.
   */
  lookAgainMs(waitedMs: number, holdMs = 0): number | undefined {
    const { traffic, tried, pendingMs } = this.#options;
    const { endpoints, model } = traffic.cluster;
    const mayFit = endpoints.some((endpoint) => !endpoint.description(model) || this.fits(endpoint));
    if (!mayFit || waitedMs > Math.max(pendingMs, holdMs)) {
      this.giveUp("no_endpoint");
      return undefined;
    }
    tried.clear();
    this.#avoidUnfit();
    return LOOK_MS;
  }

  /** Notes that no endpoint goes on with the answer, for the reason `why`. */
  giveUp(why: ContinuationOutcome): void {
    const { stats, traffic } = this.#options;
    stats.ended(traffic.cluster.model, why);
    this.end();
  }

  /** Notes that an engine goes on with the answer, and brings what the caller does not have yet. */
  goesOn(): void {
    const { traffic, clock, stats } = this.#options;
    if (!this.#broken) return;
    stats.wentOn(traffic.cluster.model, clock.nowMs() - this.#broken.atMs);
    this.#error = undefined;
    this.end();
  }

  /** Forgets that the answer was to go on: the request is to begin anew, at an endpoint that was not lost with it. */
  forget(): void {
    const { tried } = this.#options;
    if (this.#error) {
      tried.clear();
      for (const address of this.#lost ?? []) tried.add(address);
    }
    this.#error = undefined;
    this.end();
  }

  /** Notes that the request is over, however it ended, or that nobody goes on. A second call does nothing. */
  end(): void {
    this.#broken?.permit.release();
    this.#broken = undefined;
  }

  /** Returns why another engine is not to go on; undefined where it may. */
  #refusal(failure: UpstreamFailure, mostInARow: number): ContinuationOutcome | undefined {
    const { answer } = this.#options;
    if (!answer.begun) return "not_kept";
    if (failure.otherAnswer) return "other_answer";
    if (!failure.retriable) return "refused";
    if (!answer.workedOn) return undefined;
    // A node that drains has told that it goes: the answer is not what it is lost by.
    const saidSo = failure.ending.kind === "status" && failure.ending.notReady;
    return answer.lose(saidSo, mostInARow) ? undefined : "lost_too_often";
  }

  /** Returns whether another endpoint can begin the answer anew: its caller does not wait for one that can go on. */
  #mayBeginAnew(): boolean {
    const { traffic, isCommitted } = this.#options;
    return !isCommitted() && traffic.cluster.healthyEndpoints.some(({ address }) => !this.#lost?.has(address));
  }

  /** Sees to it that endpoints are not asked that cannot go on. Returns whether one is left that can. */
  #avoidUnfit(): boolean {
    const { traffic, tried } = this.#options;
    for (const endpoint of traffic.cluster.endpoints) if (!this.fits(endpoint)) tried.add(endpoint.address);
    return traffic.cluster.healthyEndpoints.some(({ address }) => !tried.has(address));
  }
}
