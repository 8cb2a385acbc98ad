import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { sleep } from "../../deploy/runtime/time/sleep.ts";
import type { ApiError } from "../errors.ts";
import { OUTCOMES } from "../outcome.ts";
import type { UpstreamStats } from "../stats/upstream-stats.ts";
import { Attempt } from "./call/attempt.ts";
import type { CallRecord } from "./call/call-record.ts";
import { CommitGate, type EventSink } from "./call/commit-gate.ts";
import { callCountTokens } from "./call/count-tokens-call.ts";
import { contextExceeded, overloaded, type UpstreamFailure } from "./call/grpc-error.ts";
import type { HeldRequest } from "./call/held-request.ts";
import type { Timeouts } from "./call/timeouts.ts";
import type { Admitted, NotAdmitted } from "./cluster-admission.ts";
import type { ClusterManager } from "./cluster-manager.ts";
import type { ClusterMember } from "./cluster-member.ts";
import { ClusterTraffic } from "./cluster-traffic.ts";
import type { PromptFacts } from "./encoded-request.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { promptBytes } from "./load-balancing/boundary-hashes.ts";
import { type Route, routeOf } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import type { Ejection } from "./outlier/outlier-detector.ts";
import { beyondWindows } from "./prompt-bound.ts";
import { RequestsOfDeath } from "./retry/request-of-death.ts";
import { Retries } from "./retry/retries.ts";
import {
  clientClosed,
  outageRetryMs,
  requestOfDeath,
  spreadRetryAfterMs,
  tooManyWaiting,
} from "./retry/retry-errors.ts";
import type { BackOffSettings, RequestOfDeathSettings } from "./retry/retry-settings.ts";

/**
 * The time that counting the tokens of a prompt may take, in milliseconds. It is quick: a node that takes longer is not
 * well.
 */
const COUNT_TIMEOUT_MS = 30_000;

/** The rough number of bytes of prompt to a token, by which time limits grow with the prompt. */
const BYTES_PER_TOKEN = 4;

/**
 * The time after which the health checks know of an endpoint that cannot be connected to, in milliseconds: a request
 * that had no other is then held or told that there is none.
 */
const LOSS_KNOWN_MS = 250;

/** The detail token for each way in which the wait for an endpoint ends badly. */
const PENDING_DETAIL = {
  pending_overflow: "upstream_pending_overflow",
  pending_timeout: "upstream_pending_timeout",
} as const;

/** A request that an engine shall answer. */
export type Dispatch = {
  /** The request as the engine gets it. It is dropped as soon as no try will need it any more. */
  readonly request: HeldRequest;
  /** What of the request matters on its way. */
  readonly facts: PromptFacts;
  /** The hints that picking an endpoint may look at. */
  readonly hints: RoutingHints;
  /** The time that the whole answer may take, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Whether the request may be held while the model has no endpoint, as its caller is shown signs of life. */
  readonly mayHold: boolean;
  /** Takes the events of the answer. */
  readonly sink: EventSink;
  /** The record of the request, which is told of every call that is made for it. */
  readonly record: CallRecord;
};

/** A prompt whose tokens an engine shall count. */
export type Counting = {
  /** The prompt as the engine gets it: a CountTokens request in the bytes of the contract. */
  readonly request: HeldRequest;
  /** The catalog id of the model. */
  readonly model: string;
  /** The record of the request, which is told of every call that is made for it. */
  readonly record: CallRecord;
};

/** What all tries of one request have in common. */
type Journey = {
  readonly dispatch: Dispatch;
  readonly traffic: ClusterTraffic;
  readonly route: Route;
  /** A keyed digest of the whole prompt, by which requests that kill engines are known. */
  readonly identity: string;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  /** The addresses of the endpoints that have had their try. */
  readonly tried: Set<string>;
  readonly retries: Retries;
  readonly gate: CommitGate;
};

/** What the router works with. */
export type RouterOptions = {
  /** The clusters, of which each model has at most one. */
  readonly clusters: ClusterManager;
  /** The clock by which requests wait, and by which their deadlines are set. */
  readonly clock: Clock;
  /** The time limits of requests and their calls. */
  readonly timeouts: Timeouts;
  /** The most tries of a request after its first one. */
  readonly numRetries: number;
  /** The settings of how long a request waits before it is tried again. */
  readonly retryBackOff: BackOffSettings;
  /** The settings of how requests are found that kill engines. */
  readonly requestOfDeath: RequestOfDeathSettings;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Counts calls and the ways in which they end. */
  readonly stats: UpstreamStats;
};

/**
 * Brings a request to an endpoint of its model's cluster. Until the first delta a failed try is repeated on another
 * endpoint, within the cluster's retry budget; from then on the answer belongs to one endpoint, and its failure is the
 * answer's failure.
 */
export class Router {
  readonly #options: RouterOptions;
  readonly #traffic: ReadonlyMap<string, ClusterTraffic>;
  readonly #deaths: RequestsOfDeath;

  constructor(options: RouterOptions) {
    this.#options = options;
    this.#deaths = new RequestsOfDeath(options.requestOfDeath);
    const { clusters, clock, random, stats } = options;
    const traffic = clusters.clusters.map((cluster) => {
      const onEjection = ({ type, enforced }: Ejection) => stats.ejected(cluster.model, type, enforced);
      return new ClusterTraffic(cluster, clusters.work, clock, random, onEjection);
    });
    this.#traffic = new Map(traffic.map((one) => [one.cluster.model, one]));
  }

  /** The traffic of all clusters, for statistics. */
  get traffic(): readonly ClusterTraffic[] {
    return [...this.#traffic.values()];
  }

  /**
   * Has a request answered. Resolves when the answer is complete. Throws `ApiError`; aborting the signal ends the
   * tries.
   */
  async dispatch(dispatch: Dispatch, signal: AbortSignal): Promise<void> {
    const journey = this.#begin(dispatch, signal);
    const { traffic, retries, identity } = journey;
    let last: ApiError | undefined;
    try {
      for (;;) {
        const place = await this.#admit(journey, signal, last);
        const end = await this.#attempt(journey, place).run(signal);
        retries.tryEnded();
        if (end === "cancelled") throw clientClosed();
        traffic.report(
          place.member.endpoint.address,
          end === "answered" ? undefined : end,
          this.#options.clock.nowMs(),
        );
        if (end === "answered") {
          this.#deaths.answered(identity);
          return;
        }
        dispatch.record.tryFailed(end.error.detail);
        await this.#reportDeath(identity, place.member, end, signal);
        if (signal.aborted) throw clientClosed();
        this.#refuseSuspect(journey);
        if (retries.state.at === "committed") throw end.error;
        if (!end.retriable) throw this.#exhausted(end.error, traffic);
        last = end.error;
        await sleep(this.#options.clock, this.#repeat(journey, last), signal);
        if (signal.aborted) throw clientClosed();
      }
    } finally {
      retries.end();
      dispatch.request.drop();
    }
  }

  /**
   * Returns the tokens of the rendered prompt, as an engine counts them. A count takes no slot, so that neither queue
   * nor caps have a say, but one of the places that the cluster has for counts. Throws `ApiError`.
   */
  async countTokens(counting: Counting, signal: AbortSignal): Promise<number> {
    const { model } = counting;
    const traffic = this.#traffic.get(model);
    if (!traffic) throw this.#notAdmitted("no_endpoints", model, undefined);
    const { maxTokenCounts } = traffic.cluster.settings.circuitBreakers;
    const place = traffic.admission.breaker.tryCount(maxTokenCounts);
    if (!place) throw overloaded("upstream_count_overflow", this.#retryAfterMs());
    try {
      return await this.#count(traffic, counting, signal);
    } finally {
      place.release();
    }
  }

  async #count(traffic: ClusterTraffic, { request, model, record }: Counting, signal: AbortSignal): Promise<number> {
    const { cluster } = traffic;
    const { clock, numRetries, timeouts } = this.#options;
    const deadline = clock.wallMs() + COUNT_TIMEOUT_MS;
    const tried = new Set<Endpoint>();
    let failure: UpstreamFailure | undefined;
    for (let retries = 0; retries <= numRetries; retries += 1) {
      const endpoint = cluster.pick(tried);
      if (!endpoint) break;
      tried.add(endpoint);
      const headers = record.countSent(endpoint.address);
      const options = { headers, deadline, clock, connectMs: timeouts.connectMs };
      const counted = await callCountTokens(endpoint, request, options, signal);
      if (signal.aborted) throw clientClosed();
      if (typeof counted === "number") return counted;
      failure = counted;
      record.tryFailed(failure.error.detail);
      if (!failure.retriable) throw failure.error;
    }
    throw failure ? this.#exhausted(failure.error, traffic) : this.#notAdmitted("none_available", model, traffic);
  }

  /** Makes what all tries of a request have in common. Throws where there shall be none. */
  #begin(dispatch: Dispatch, signal: AbortSignal): Journey {
    const { clock, numRetries, retryBackOff, random } = this.#options;
    const { request, facts, hints, timeoutMs, sink } = dispatch;
    const { model, userTextBytes } = facts;
    const traffic = this.#traffic.get(model);
    if (!traffic) throw this.#notAdmitted("no_endpoints", model, undefined);
    if (signal.aborted) throw clientClosed();
    const deadline = clock.wallMs() + timeoutMs;
    const descriptions = traffic.cluster.endpoints.map((endpoint) => endpoint.description(model));
    const beyond = beyondWindows(userTextBytes, descriptions);
    if (beyond) throw contextExceeded(beyond.tokens, beyond.window);
    const route = routeOf(facts, hints);
    const identity = route.shape.boundaries.at(-1)?.hash ?? "";
    const retries = new Retries({ numRetries, backOff: retryBackOff, budget: traffic.budget, random });
    const gate = new CommitGate(sink, () => {
      retries.commit();
      request.drop();
    });
    const tried = new Set<string>();
    const journey = { dispatch, traffic, route, identity, deadline, tried, retries, gate };
    this.#refuseSuspect(journey);
    return journey;
  }

  /**
   * Resolves to a place for the next try, at once or after a wait in the queue. Throws where there is none; `last` is the
   * error of the try before.
   */
  async #admit(journey: Journey, signal: AbortSignal, last: ApiError | undefined): Promise<Admitted> {
    const { traffic, route, tried } = journey;
    const { request, facts, hints, mayHold } = journey.dispatch;
    const { pendingMs: timeoutMs } = this.#options.timeouts;
    const asked = { route, tenant: request.tenant, hints, tried, timeoutMs, mayHold, bytes: request.size };
    const place = await traffic.admission.acquire(asked, signal);
    if (signal.aborted) {
      if (typeof place !== "string") place.release();
      throw clientClosed();
    }
    if (typeof place === "string")
      throw last && !hasUntried(journey)
        ? this.#exhausted(last, traffic)
        : this.#notAdmitted(place, facts.model, traffic);
    tried.add(place.member.endpoint.address);
    return place;
  }

  /** Makes the next try of a request, on the endpoint that it has a place on. */
  #attempt({ dispatch, route, deadline, gate, retries }: Journey, place: Admitted): Attempt {
    const { clock, stats, timeouts } = this.#options;
    const { request, facts, record } = dispatch;
    const trace = record.generateSent(place.member.endpoint.address);
    const running = stats.begin(facts.model, retries.state.at === "retrying");
    const inputTokens = promptBytes(route.shape) / BYTES_PER_TOKEN;
    return new Attempt({
      place,
      gate,
      call: { request, headers: trace.headers, deadline, clock, timeouts, inputTokens },
      onEnd: (end) => {
        trace.ended(end);
        running.end(typeof end === "string" ? end : { failed: end.error.detail });
      },
    });
  }

  /** Returns how long to wait before the failed try is repeated, in milliseconds. Throws where it is not. */
  #repeat(journey: Journey, error: ApiError): number {
    const { dispatch, traffic, tried, retries } = journey;
    const untouched = OUTCOMES[error.detail].untouched ?? false;
    // What an engine worked on when it was lost may be what it died of: it is not sent again to one that comes back.
    const waitMs = retries.repeat({
      hasUntried: hasUntried(journey) || (dispatch.mayHold && untouched),
      untouched,
      activeAndPending: traffic.admission.breaker.activeAndPending + 1,
    });
    if (waitMs === undefined) throw this.#exhausted(error, traffic);
    const mayBeLast = !traffic.cluster.healthyEndpoints.some(({ address }) => !tried.has(address));
    return dispatch.mayHold && untouched && mayBeLast ? LOSS_KNOWN_MS : waitMs;
  }

  /**
   * Notes a request that may have killed the endpoint, or made it fall silent. Resolves when the others that were lost
   * with it have been told of: at once where the connection broke, a little later where the silence of each had to be
   * noticed.
   */
  async #reportDeath(
    identity: string,
    member: ClusterMember,
    { ending, workedMs }: UpstreamFailure,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, requestOfDeath: settings } = this.#options;
    const nowMs = clock.nowMs();
    const isDeath = ending.kind === "reset" || ending.kind === "stalled";
    if (!isDeath || workedMs === undefined || member.isLeaving(nowMs)) return;
    this.#deaths.killed(identity, { address: member.endpoint.address, workedMs }, nowMs);
    await (ending.kind === "reset" ? setImmediate() : sleep(clock, settings.oneDeathMs, signal));
  }

  /** Throws where the request kills engines, or may do so. */
  #refuseSuspect({ identity, dispatch }: Pick<Journey, "identity" | "dispatch">): void {
    const { clock, stats } = this.#options;
    const verdict = this.#deaths.judge(identity, clock.nowMs());
    if (verdict === "allowed") return;
    if (verdict !== "denied") throw overloaded("request_of_death_suspected", this.#retryAfterMs(verdict.laterMs));
    stats.requestDenied(dispatch.facts.model);
    throw requestOfDeath();
  }

  /** Makes the error of a request whose tries all failed before anything was said: its caller may come again, later. */
  #exhausted(last: ApiError, { admission }: ClusterTraffic): ApiError {
    if (last.code !== "engine_unavailable" && last.code !== "server_is_overloaded") return last;
    return overloaded(last.detail, this.#retryAfterMs(last.retryAfterMs ?? outageRetryMs(admission.outageMs())), last);
  }

  /** Makes the error of a request that gets no place; `traffic` is undefined where the model has no cluster. */
  #notAdmitted(why: NotAdmitted, model: string, traffic: ClusterTraffic | undefined): ApiError {
    const admission = traffic?.admission;
    const waitMs = admission && (outageRetryMs(admission.outageMs()) ?? admission.drainMs());
    if (why === "key_overflow") return tooManyWaiting(this.#retryAfterMs(waitMs));
    if (why === "pending_overflow" || why === "pending_timeout")
      return overloaded(PENDING_DETAIL[why], this.#retryAfterMs(waitMs));
    this.#options.stats.noneHealthy(model);
    return overloaded("no_healthy_upstream", this.#retryAfterMs(waitMs));
  }

  #retryAfterMs(expectedMs?: number): number {
    return spreadRetryAfterMs(expectedMs, this.#options.random);
  }
}

/** Returns whether the cluster has an endpoint, be it well or not, that has not had its try at the request. */
function hasUntried({ traffic, tried }: Journey): boolean {
  return traffic.cluster.members.some(({ endpoint }) => !tried.has(endpoint.address));
}
