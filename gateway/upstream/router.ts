import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { sleep } from "../../deploy/runtime/time/sleep.ts";
import type { CountTokensRequest, Event, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../errors.ts";
import { inTurns, nextTurn } from "../event-loop-turn.ts";
import { OUTCOMES } from "../outcome.ts";
import type { UpstreamStats } from "../stats/upstream-stats.ts";
import type { CallRecord } from "./call/call-record.ts";
import { CommitGate, type EventSink } from "./call/commit-gate.ts";
import { callCountTokens } from "./call/count-tokens-call.ts";
import { type CallHeaders, callGenerate, type Flow } from "./call/generate-call.ts";
import { overloaded, type UpstreamFailure } from "./call/grpc-error.ts";
import type { Timeouts } from "./call/timeouts.ts";
import type { Admitted, NotAdmitted } from "./cluster-admission.ts";
import type { ClusterManager } from "./cluster-manager.ts";
import type { ClusterMember } from "./cluster-member.ts";
import { ClusterTraffic } from "./cluster-traffic.ts";
import type { Endpoint, Outcome } from "./endpoint/endpoint.ts";
import { type Route, routing } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import type { Ejection } from "./outlier/outlier-detector.ts";
import { comeBackMs } from "./retry/come-back.ts";
import { clientClosed, requestOfDeath, tooManyWaiting } from "./retry/request-errors.ts";
import { RequestsOfDeath } from "./retry/request-of-death.ts";
import { backOffMs } from "./retry/retry-back-off.ts";
import type { RetryPermit } from "./retry/retry-budget.ts";
import type { BackOffSettings, RequestOfDeathSettings } from "./retry/retry-settings.ts";

/** Counting is quick; a node that takes longer is not well. */
const COUNT_TIMEOUT_MS = 30_000;

/** The token for each way in which the wait for an endpoint ends badly. */
const PENDING_DETAIL = {
  pending_overflow: "upstream_pending_overflow",
  pending_timeout: "upstream_pending_timeout",
} as const;

/** A request that an engine shall answer. */
export type Dispatch = {
  readonly request: GenerateRequest;
  readonly hints: RoutingHints;
  /** How long the whole answer may take, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Takes the answer. */
  readonly sink: EventSink;
  /** Is told of every call that is made for the request. */
  readonly record: CallRecord;
};

/** A prompt whose tokens an engine shall count. */
export type Counting = {
  readonly request: CountTokensRequest;
  /** Is told of every call that is made for the request. */
  readonly record: CallRecord;
};

export type RouterOptions = {
  readonly clusters: ClusterManager;
  readonly clock: Clock;
  readonly timeouts: Timeouts;
  /** Further tries after the first. */
  readonly numRetries: number;
  readonly retryBackOff: BackOffSettings;
  readonly requestOfDeath: RequestOfDeathSettings;
  /** Chance, from 0 to below 1. */
  readonly random: () => number;
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

  /** What runs and waits, by cluster; for statistics. */
  get traffic(): readonly ClusterTraffic[] {
    return [...this.#traffic.values()];
  }

  /** Returns when the answer is complete. Throws `ApiError`. */
  async dispatch({ request, hints, timeoutMs, sink, record }: Dispatch, signal: AbortSignal): Promise<void> {
    const { clock, stats, timeouts } = this.#options;
    const traffic = this.#traffic.get(request.model);
    if (!traffic) throw this.#notAdmitted("no_endpoints", request.model);
    const deadline = clock.wallMs() + timeoutMs;
    const mayGoOn = () => {
      if (signal.aborted) throw clientClosed();
    };
    mayGoOn();
    const route = await inTurns(routing(request, hints), mayGoOn);
    const identity = route.shape.boundaries.at(-1)?.hash ?? "";
    const known = this.#suspicion(identity, request.model);
    if (known) throw known;
    const gate = new CommitGate(sink);
    const tried = new Set<string>();
    let permit: RetryPermit | undefined;
    try {
      for (let retries = 0; ; retries += 1) {
        const { tenant } = request;
        const asked = { route, tenant, hints, tried, timeoutMs: timeouts.pendingMs };
        const place = await traffic.admission.acquire(asked, signal);
        if (signal.aborted) {
          if (typeof place !== "string") place.release();
          throw clientClosed();
        }
        if (typeof place === "string") throw this.#notAdmitted(place, request.model, traffic.admission.drainMs());
        const { address } = place.member.endpoint;
        tried.add(address);
        const traced = record.generateSent(address);
        const running = stats.begin(request.model, retries > 0);
        const { headers } = traced;
        const failure = await this.#try(place, request, route, deadline, gate, headers, permit, signal);
        traced.ended(signal.aborted ? "cancelled" : (failure ?? "answered"));
        permit?.release();
        running.end(signal.aborted ? "cancelled" : failure ? { failed: failure.error.detail } : "answered");
        if (signal.aborted) throw clientClosed();
        const nowMs = clock.nowMs();
        traffic.report(address, failure, nowMs);
        if (!failure) {
          this.#deaths.answered(identity);
          return;
        }
        await this.#reportDeath(identity, place.member, failure, nowMs);
        const suspicion = this.#suspicion(identity, request.model);
        if (suspicion) throw suspicion;
        if (!failure.retriable || gate.committed) throw failure.error;
        permit = this.#mayRetry(traffic, retries + 1, tried, failure);
        await sleep(clock, backOffMs(retries + 1, this.#options.retryBackOff, this.#options.random), signal);
        if (signal.aborted) throw clientClosed();
      }
    } finally {
      permit?.release();
    }
  }

  /** Tokens of the rendered prompt. Throws `ApiError`. */
  async countTokens({ request, record }: Counting, signal: AbortSignal): Promise<number> {
    const { clusters, clock, numRetries, timeouts } = this.#options;
    const deadline = clock.wallMs() + COUNT_TIMEOUT_MS;
    const tried = new Set<Endpoint>();
    let failure: UpstreamFailure | undefined;
    // Counting takes no slot: neither queue nor breaker has a say.
    for (let retries = 0; retries <= numRetries; retries += 1) {
      const endpoint = clusters.cluster(request.model)?.pick(tried);
      if (!endpoint) break;
      tried.add(endpoint);
      const headers = record.countSent(endpoint.address);
      const options = { headers, deadline, clock, connectMs: timeouts.connectMs };
      const counted = await callCountTokens(endpoint, request, options, signal);
      if (signal.aborted) throw clientClosed();
      if (typeof counted === "number") return counted;
      failure = counted;
      if (!failure.retriable) throw failure.error;
    }
    throw failure ? this.#exhausted(failure.error) : this.#notAdmitted("none_available", request.model);
  }

  async #try(
    { member, placement, release }: Admitted,
    request: GenerateRequest,
    route: Route,
    deadline: number,
    gate: CommitGate,
    headers: CallHeaders,
    permit: RetryPermit | undefined,
    signal: AbortSignal,
  ): Promise<UpstreamFailure | undefined> {
    const { clock, timeouts } = this.#options;
    const call = member.endpoint.beginCall();
    const inputTokens = (route.shape.boundaries.at(-1)?.bytes ?? 0) / 4;
    let retrying = permit;
    const onEvents = (events: readonly Event[], flow: Flow) => {
      placement?.see(events);
      gate.pass(events, flow);
      if (retrying && gate.committed) {
        retrying.release();
        retrying = undefined;
      }
    };
    let outcome: Outcome = "failed";
    placement?.begin();
    try {
      const options = { headers, deadline, clock, timeouts, inputTokens };
      const failure = await callGenerate(member.endpoint, request, options, signal, onEvents);
      outcome = signal.aborted ? "cancelled" : failure ? (failure.retriable ? "failed" : "refused") : "ok";
      return failure;
    } finally {
      placement?.end();
      call.end(outcome);
      release();
    }
  }

  /**
   * A place in the budget for one more try, to be held until it is answered; throws when there shall be none. What no
   * engine has worked on costs nothing to send again: it needs no place, as gRPC's transparent retries do not.
   */
  #mayRetry(
    { admission, budget, cluster }: ClusterTraffic,
    retry: number,
    tried: ReadonlySet<string>,
    { error }: UpstreamFailure,
  ): RetryPermit | undefined {
    const untried = cluster.members.some(({ endpoint }) => !tried.has(endpoint.address));
    if (retry > this.#options.numRetries || !untried) throw this.#exhausted(error);
    if (OUTCOMES[error.detail].untouched) return undefined;
    const permit = budget.tryRetry(admission.breaker.activeAndPending + 1);
    if (!permit) throw this.#exhausted(error);
    return permit;
  }

  /** Where the request may have killed the endpoint. Resolves when the others that were lost with it have been told of. */
  async #reportDeath(
    identity: string,
    member: ClusterMember,
    { ending, workedMs }: UpstreamFailure,
    nowMs: number,
  ): Promise<void> {
    if (ending.kind !== "reset" || workedMs === undefined || member.isLeaving(nowMs)) return;
    this.#deaths.killed(identity, { address: member.endpoint.address, workedMs }, nowMs);
    await nextTurn();
  }

  /** Why the request is not to be tried now; undefined: it may be. */
  #suspicion(identity: string, model: string): ApiError | undefined {
    const { clock, stats } = this.#options;
    const verdict = this.#deaths.judge(identity, clock.nowMs());
    if (verdict === "allowed") return undefined;
    if (verdict !== "denied") return overloaded("request_of_death_suspected", this.#comeBackMs(verdict.laterMs));
    stats.requestDenied(model);
    return requestOfDeath();
  }

  /** All tries failed before anything was said: the caller may come again, later. */
  #exhausted(last: ApiError): ApiError {
    if (last.code !== "engine_unavailable" && last.code !== "server_is_overloaded") return last;
    return overloaded(last.detail, this.#comeBackMs(last.retryAfterMs), last);
  }

  /** `drainMs`: when those who wait now will have been served, where that is known. */
  #notAdmitted(why: NotAdmitted, model: string, drainMs?: number): ApiError {
    if (why === "key_overflow") return tooManyWaiting(this.#comeBackMs(drainMs));
    if (why === "pending_overflow" || why === "pending_timeout")
      return overloaded(PENDING_DETAIL[why], this.#comeBackMs(drainMs));
    this.#options.stats.noneHealthy(model);
    return overloaded("no_healthy_upstream", this.#comeBackMs());
  }

  #comeBackMs(expectedMs?: number): number {
    return comeBackMs(expectedMs, this.#options.random);
  }
}
