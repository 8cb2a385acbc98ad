import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { sleep } from "../../deploy/runtime/time/sleep.ts";
import { Capability, type ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { ApiError } from "../errors.ts";
import { OUTCOMES } from "../outcome.ts";
import type { CallKind, UpstreamStats } from "../stats/upstream-stats.ts";
import type { Admitted, NotAdmitted } from "./admission/place-search.ts";
import { Attempt } from "./call/attempt.ts";
import type { CallRecord } from "./call/call-record.ts";
import { CommitGate, type EventSink } from "./call/commit-gate.ts";
import { callCountTokens } from "./call/count-tokens-call.ts";
import { contextExceeded, overloaded, type UpstreamFailure } from "./call/grpc-error.ts";
import type { HeldRequest } from "./call/held-request.ts";
import type { Timeouts } from "./call/timeouts.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterManager } from "./cluster-manager.ts";
import type { ClusterMember } from "./cluster-member.ts";
import { ClusterTraffic, LOSS_KNOWN_MS } from "./cluster-traffic.ts";
import type { ContinuationRoom } from "./continuation/continuation-room.ts";
import type { ContinuationSettings } from "./continuation/continuation-settings.ts";
import { ResumableAnswer } from "./continuation/resumable-answer.ts";
import { messageFor } from "./continuation/resumable-message.ts";
import type { PromptFacts } from "./encoded-request.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { GoingOn, LOOK_MS } from "./going-on.ts";
import { promptBytes } from "./load-balancing/boundary-hashes.ts";
import { type Route, routeOf } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import type { Ejection } from "./outlier/outlier-detector.ts";
import { type LostTry, Patience } from "./patience.ts";
import { explained } from "./prefixes/explained-placement.ts";
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
import { Suspicion } from "./retry/suspicion.ts";

/**
 * The time that counting the tokens of a prompt may take, in milliseconds. It is quick: a node that takes longer is not
 * well.
 */
const COUNT_TIMEOUT_MS = 30_000;

/** The rough number of bytes of prompt to a token, by which time limits grow with the prompt. */
const BYTES_PER_TOKEN = 4;

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

/** The place of one try on an endpoint. */
type Place = Admitted<ClusterMember>;

/** What all tries of one request have in common. */
type Journey = {
  readonly dispatch: Dispatch;
  readonly traffic: ClusterTraffic;
  readonly route: Route;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  /** The addresses of the endpoints that have had their try. */
  readonly tried: Set<string>;
  readonly retries: Retries;
  readonly gate: CommitGate;
  /** The answer, as far as another engine could go on with it. */
  readonly answer: ResumableAnswer;
  /** Decides whether and where another engine goes on with the answer. */
  readonly goingOn: GoingOn;
  /** Knows how long the request is tried again before its answer has begun. */
  readonly patience: Patience;
  /** Knows whether the request may be what its engines were lost by. */
  readonly suspicion: Suspicion;
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
  /** The settings on how answers outlive their engines. */
  readonly continuation: ContinuationSettings;
  /** The room of what is kept of running answers so that another engine can go on with them. */
  readonly room: ContinuationRoom;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Counts calls and the ways in which they end. */
  readonly stats: UpstreamStats;
};

/**
 * Brings a request to an endpoint of its model's cluster. Until the first delta a failed try is repeated on another
 * endpoint, within the cluster's retry budget; from then on another endpoint goes on with the answer where both can.
 * Where they cannot the answer belongs to one endpoint, whose failure is the answer's failure.
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
    const { retries, answer, goingOn, suspicion } = journey;
    let last: ApiError | undefined;
    try {
      for (;;) {
        const place = await (goingOn.error ? this.#admitAgain(journey, signal) : this.#admit(journey, signal, last));
        const end = await this.#attempt(journey, place).run(signal);
        retries.tryEnded();
        answer.tryEnded();
        if (end === "cancelled") throw clientClosed();
        // What is lost behind the last event is nothing that the caller misses.
        if (end === "answered" || answer.finished) {
          suspicion.answered();
          return;
        }
        dispatch.record.tryFailed(end.error.detail);
        const inDoubt = await this.#reportLoss(journey, place.member, end);
        if (signal.aborted) throw clientClosed();
        last = end.error;
        const lost = { address: place.member.endpoint.address, failure: end, inDoubt };
        const waitMs = (await this.#goOn(journey, lost, signal)) ?? (await this.#startAnew(journey, lost));
        if (waitMs > 0) await sleep(this.#options.clock, waitMs, signal);
        if (signal.aborted) throw clientClosed();
      }
    } finally {
      retries.end();
      goingOn.end();
      answer.forget();
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
    const beyond = beyondWindows(userTextBytes, descriptionsOf(traffic.cluster, model));
    if (beyond) throw contextExceeded(beyond.tokens, beyond.window);
    const route = routeOf(facts, hints);
    const identity = route.shape.boundaries.at(-1)?.hash ?? "";
    const { timeouts, continuation: settings, stats } = this.#options;
    const retries = new Retries({
      numRetries,
      backOff: retryBackOff,
      budget: traffic.budget,
      random,
      patientRetries: settings.maxPerAnswer,
      patientPercent: settings.budgetPercent,
    });
    const gate = new CommitGate(sink, () => {
      retries.commit();
      if (answer.kept) request.taken();
      else request.drop();
    });
    const tried = new Set<string>();
    const answer = this.#resumable(dispatch, () => {
      goingOn.goesOn();
      sink.wentOn?.();
    });
    const goingOn = new GoingOn({
      backOff: retryBackOff,
      pendingMs: timeouts.pendingMs,
      isCommitted: () => retries.state.at === "committed",
      ...{ answer, traffic, tried, settings, clock, random, stats: stats.continuations },
    });
    const patience = this.#patienceOf(dispatch, traffic, tried);
    const { requestOfDeath } = this.#options;
    const suspicion = new Suspicion({ deaths: this.#deaths, identity, settings: requestOfDeath, clock, signal });
    this.#refuseSuspect(suspicion, model);
    return { dispatch, traffic, route, deadline, tried, retries, gate, answer, goingOn, patience, suspicion };
  }

  /** Makes what knows how long a request is tried again before its answer has begun. */
  #patienceOf({ mayHold }: Dispatch, { cluster }: ClusterTraffic, tried: Set<string>): Patience {
    const { noEndpointHoldMs: holdMs } = cluster.settings.circuitBreakers;
    const addresses = () => cluster.members.map(({ endpoint }) => endpoint.address);
    return new Patience({ mayHold, holdMs, tried, addresses, clock: this.#options.clock });
  }

  /** Makes what keeps the answer of a request. `onGoesOn` is called each time when another engine goes on with it. */
  #resumable({ request, facts, record }: Dispatch, onGoesOn: () => void): ResumableAnswer {
    const { room, stats, continuation } = this.#options;
    return new ResumableAnswer({
      room,
      tenant: request.tenant,
      requestBytes: request.size,
      maxPerAnswer: continuation.maxPerAnswer,
      onGoesOn,
      onNotKept: (why) => {
        stats.continuations.notKept(facts.model, why);
        record.notKept(why);
        // No other engine will need it any more.
        if (request.isTaken) request.drop();
      },
    });
  }

  /**
   * Decides whether another engine goes on with the answer of one that was lost. Resolves to how long to wait before it
   * is asked, in milliseconds; to undefined where none is.
   */
  async #goOn(
    { answer, goingOn, retries, suspicion }: Journey,
    { address, failure, inDoubt }: LostTry,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { clock, requestOfDeath: settings } = this.#options;
    if (!answer.begun && retries.state.at !== "committed") return undefined;
    // What was lost along with others need not be what they were lost by.
    const waitMs = goingOn.after(failure, address, inDoubt ? settings.mostDeaths : settings.endpoints);
    if (waitMs === undefined) return undefined;
    if (answer.lostInARow >= settings.endpoints) await sleep(clock, settings.apartMs, signal);
    // Its caller loses nothing by the time for which it is to stay away.
    if ((await suspicion.stayAway()) === "allowed") return waitMs;
    goingOn.giveUp("suspected");
    return undefined;
  }

  /**
   * Decides whether a request whose answer does not go on is tried again from the beginning. Resolves to how long to
   * wait before that, in milliseconds. Throws where it is not.
   */
  async #startAnew(journey: Journey, lost: LostTry): Promise<number> {
    const { dispatch, answer, goingOn, retries, traffic, patience, suspicion } = journey;
    const { error, retriable } = lost.failure;
    const patient = retries.state.at !== "committed" && patience.failed(lost);
    if (patient) await suspicion.stayAway();
    this.#refuseSuspect(suspicion, dispatch.facts.model);
    if (retries.state.at === "committed") throw goingOn.error ?? error;
    goingOn.forget();
    answer.forget();
    if (!retriable && !answer.continued) throw this.#exhausted(error, traffic);
    return this.#repeat(journey, error, patient);
  }

  /** Resolves to a place on an endpoint that goes on with an answer. Throws where there is none in time. */
  async #admitAgain(journey: Journey, signal: AbortSignal): Promise<Place> {
    const { goingOn, tried, traffic } = journey;
    const { clock } = this.#options;
    const beganMs = clock.nowMs();
    for (;;) {
      const place = await this.#acquire(journey, signal);
      if (typeof place !== "string") {
        if (goingOn.fits(place.member.endpoint)) return place;
        // What was avoided at first may be asked after a wait in which everything has changed.
        tried.add(place.member.endpoint.address);
        place.release();
        continue;
      }
      const lookAgainMs = place === "all_tried" ? goingOn.lookAgainMs(clock.nowMs() - beganMs) : undefined;
      if (lookAgainMs === undefined) {
        if (place !== "all_tried") goingOn.giveUp("no_endpoint");
        const { error } = goingOn;
        if (!error) throw this.#notAdmitted("none_available", journey.dispatch.facts.model, traffic);
        throw journey.retries.state.at === "committed" ? error : this.#exhausted(error, traffic);
      }
      await sleep(clock, lookAgainMs, signal);
      if (signal.aborted) throw clientClosed();
    }
  }

  /** Resolves to a place for the next try, at once or after a wait in the queue, or to why there is none. */
  async #acquire(journey: Journey, signal: AbortSignal): Promise<Place | NotAdmitted> {
    const { traffic, route, tried, goingOn, patience } = journey;
    const { request, hints, mayHold } = journey.dispatch;
    const { pendingMs: timeoutMs } = this.#options.timeouts;
    const underWay = goingOn.error !== undefined || patience.waits;
    const { tenant, size: bytes } = request;
    const asked = { route, tenant, hints, tried, timeoutMs, bytes, underWay, mayHold: mayHold || underWay };
    const place = await traffic.admission.acquire(asked, signal);
    if (!signal.aborted) return place;
    if (typeof place !== "string") place.release();
    throw clientClosed();
  }

  /**
   * Resolves to a place for a try that begins the answer. Throws where there is none; `last` is the error of the try
   * before.
   */
  async #admit(journey: Journey, signal: AbortSignal, last: ApiError | undefined): Promise<Place> {
    const { traffic, tried, patience } = journey;
    const { facts } = journey.dispatch;
    let place = await this.#acquire(journey, signal);
    // What was avoided at first may be asked after a wait in which everything has changed.
    while (place === "all_tried" && patience.waits) {
      patience.forgive();
      await sleep(this.#options.clock, LOOK_MS, signal);
      place = await this.#acquire(journey, signal);
    }
    if (typeof place === "string")
      throw last && !hasUntried(journey)
        ? this.#exhausted(last, traffic)
        : this.#notAdmitted(place, facts.model, traffic);
    tried.add(place.member.endpoint.address);
    if (place.overdue) {
      this.#options.stats.prefillOverdue(facts.model);
      journey.dispatch.record.overdue();
    }
    return place;
  }

  /** Returns the place with somebody who explains to the record what was cached there, and why not more. */
  #explained(place: Place, { ledger }: ClusterTraffic, route: Route, record: CallRecord): Place {
    const sent = ledger.sent(route, place.member.endpoint.address, this.#options.clock.nowMs());
    return { ...place, placement: explained(place.placement, sent, (note) => record.cached(note)) };
  }

  /** Makes the next try of a request, on the endpoint that it has a place on. */
  #attempt({ dispatch, traffic, route, deadline, gate, retries, answer }: Journey, place: Place): Attempt {
    const { clock, stats, timeouts, room } = this.#options;
    const { request, facts, record } = dispatch;
    const { endpoint } = place.member;
    const description = room.isOpen ? endpoint.description(facts.model) : undefined;
    const resumption = answer.begin(description?.capabilities.includes(Capability.CONTINUATION) ?? false);
    const continuedTokens = answer.continued ? answer.tokens : undefined;
    const trace = record.generateSent(endpoint.address, continuedTokens);
    const kind: CallKind = retries.state.at === "retrying" ? "retry" : "first";
    const running = stats.begin(facts.model, answer.continued ? "continuation" : kind);
    const inputTokens = promptBytes(route.shape) / BYTES_PER_TOKEN + (continuedTokens ?? 0);
    const message = (held: Uint8Array) => messageFor(held, resumption);
    return new Attempt({
      place: answer.continued ? place : this.#explained(place, traffic, route, record),
      answer,
      gate,
      continues: answer.continued,
      call: { request, message, headers: trace.headers, deadline, clock, timeouts, inputTokens },
      onEnd: (end) => {
        trace.ended(end);
        running.end(typeof end === "string" ? end : { failed: end.error.detail });
        if (end !== "cancelled") traffic.report(endpoint.address, end === "answered" ? undefined : end, clock.nowMs());
      },
    });
  }

  /**
   * Returns how long to wait before the failed try is repeated, in milliseconds. Throws where it is not. `patient` says
   * that neither its tries nor the endpoints are counted.
   */
  #repeat(journey: Journey, error: ApiError, patient: boolean): number {
    const { dispatch, traffic, tried, retries } = journey;
    const untouched = OUTCOMES[error.detail].untouched ?? false;
    // What an engine worked on when it was lost may be what it died of: it is not sent again to one that comes back.
    const waitMs = retries.repeat({
      hasUntried: hasUntried(journey) || (dispatch.mayHold && untouched),
      ...{ untouched, patient },
      activeAndPending: traffic.admission.breaker.activeAndPending + 1,
    });
    if (waitMs === undefined) throw this.#exhausted(error, traffic);
    const mayBeLast = !traffic.cluster.healthyEndpoints.some(({ address }) => !tried.has(address));
    return dispatch.mayHold && untouched && mayBeLast ? LOSS_KNOWN_MS : waitMs;
  }

  /** Notes a try whose endpoint may be lost. Resolves to whether that may be the doing of other requests. */
  async #reportLoss(
    { suspicion, answer }: Journey,
    member: ClusterMember,
    { ending: { kind }, workedMs }: UpstreamFailure,
  ): Promise<boolean> {
    const isDeath = kind === "reset" || kind === "stalled";
    if (!isDeath || workedMs === undefined || member.isLeaving(this.#options.clock.nowMs())) return false;
    // An answer that has got on since it lost another engine is not what this one died of.
    const blamedMs = answer.continued && answer.gotOn ? Number.POSITIVE_INFINITY : workedMs;
    return suspicion.lost({ address: member.endpoint.address, workedMs: blamedMs }, kind === "stalled");
  }

  /** Throws where the request kills engines, or may do so. */
  #refuseSuspect({ verdict }: Suspicion, model: string): void {
    if (verdict === "allowed") return;
    if (verdict !== "denied") throw overloaded("request_of_death_suspected", this.#retryAfterMs(verdict.laterMs));
    this.#options.stats.requestDenied(model);
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

/** Yields what each endpoint of a cluster says of the model; undefined for one that has said nothing. */
function* descriptionsOf({ members }: Cluster, model: string): Generator<ModelDescription | undefined> {
  for (const { endpoint } of members) yield endpoint.description(model);
}
