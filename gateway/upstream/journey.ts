import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { sleep } from "../../deploy/runtime/time/sleep.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { ApiError } from "../errors.ts";
import { OUTCOMES } from "../outcome.ts";
import type { CallKind, UpstreamStats } from "../stats/upstream-stats.ts";
import type { Admitted, NotAdmitted } from "./admission/place-search.ts";
import { Attempt } from "./call/attempt.ts";
import type { CallRecord } from "./call/call-record.ts";
import { CommitGate, type EventSink } from "./call/commit-gate.ts";
import { contextExceeded, type UpstreamFailure } from "./call/grpc-error.ts";
import type { HeldRequest } from "./call/held-request.ts";
import type { Timeouts } from "./call/timeouts.ts";
import type { ClusterMember } from "./cluster-member.ts";
import { type ClusterTraffic, LOSS_KNOWN_MS } from "./cluster-traffic.ts";
import type { ContinuationRoom } from "./continuation/continuation-room.ts";
import type { ContinuationSettings } from "./continuation/continuation-settings.ts";
import { ResumableAnswer } from "./continuation/resumable-answer.ts";
import { messageFor } from "./continuation/resumable-message.ts";
import type { PromptFacts } from "./encoded-request.ts";
import { GoingOn, LOOK_MS } from "./going-on.ts";
import { promptBytes } from "./load-balancing/boundary-hashes.ts";
import { type Route, routeOf } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import { type LostTry, Patience } from "./patience.ts";
import type { CacheNote } from "./prefixes/cache-note.ts";
import { explained } from "./prefixes/explained-placement.ts";
import { beyondBounds } from "./prompt-bound.ts";
import type { Refusals } from "./refusals.ts";
import type { RequestsOfDeath } from "./retry/request-of-death.ts";
import { Retries } from "./retry/retries.ts";
import { clientClosed, requestOfDeath } from "./retry/retry-errors.ts";
import type { BackOffSettings, RequestOfDeathSettings } from "./retry/retry-settings.ts";
import { Suspicion } from "./retry/suspicion.ts";

/** The rough number of bytes of prompt to a token, by which time limits grow with the prompt. */
const BYTES_PER_TOKEN = 4;

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

/** What all journeys have in common. */
export type JourneyParts = {
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
  /** Knows the requests of all callers that kill engines. */
  readonly deaths: RequestsOfDeath;
  /** Makes the errors of requests that no engine serves. */
  readonly refusals: Refusals;
};

/** The place of one try on an endpoint. */
type Place = Admitted<ClusterMember>;

/** The way of one request through its tries, from its first wait for a place to the end of its answer. */
export class Journey {
  readonly #dispatch: Dispatch;
  readonly #traffic: ClusterTraffic;
  readonly #parts: JourneyParts;
  readonly #signal: AbortSignal;
  readonly #route: Route;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly #deadline: number;
  /** The addresses of the endpoints that have had their try. */
  readonly #tried = new Set<string>();
  readonly #retries: Retries;
  readonly #gate: CommitGate;
  /** The answer, as far as another engine could go on with it. */
  readonly #answer: ResumableAnswer;
  readonly #goingOn: GoingOn;
  readonly #patience: Patience;
  readonly #suspicion: Suspicion;

  /** Begins without a try, towards the cluster of `traffic`. Aborting the signal ends the journey. */
  constructor(dispatch: Dispatch, traffic: ClusterTraffic, parts: JourneyParts, signal: AbortSignal) {
    this.#dispatch = dispatch;
    this.#traffic = traffic;
    this.#parts = parts;
    this.#signal = signal;
    const { clock, numRetries, retryBackOff: backOff, continuation, random, deaths } = parts;
    const { request, facts, hints, mayHold, sink } = dispatch;
    this.#deadline = clock.wallMs() + dispatch.timeoutMs;
    this.#route = routeOf(facts, hints);
    const tried = this.#tried;
    this.#retries = new Retries({
      numRetries,
      backOff,
      budget: traffic.budget,
      random,
      patientRetries: continuation.maxPerAnswer,
      patientPercent: continuation.budgetPercent,
    });
    this.#gate = new CommitGate(sink, () => {
      this.#retries.commit();
      if (this.#answer.kept) request.taken();
      else request.drop();
    });
    this.#answer = this.#resumable();
    this.#goingOn = new GoingOn({
      pendingMs: parts.timeouts.pendingMs,
      isCommitted: () => this.#isCommitted,
      stats: parts.stats.continuations,
      ...{ answer: this.#answer, traffic, tried, settings: continuation, backOff, clock, random },
    });
    const { noEndpointHoldMs: holdMs } = traffic.cluster.settings.circuitBreakers;
    const addresses = () => traffic.cluster.members.map(({ endpoint }) => endpoint.address);
    this.#patience = new Patience({ mayHold, holdMs, tried, addresses, clock });
    const identity = this.#route.shape.boundaries.at(-1)?.hash ?? "";
    this.#suspicion = new Suspicion({ deaths, identity, settings: parts.requestOfDeath, clock, signal });
  }

  /** Has the request answered, once. Resolves when the answer is complete. Throws `ApiError`. */
  async run(): Promise<void> {
    if (this.#signal.aborted) throw clientClosed();
    this.#refuseTooLong();
    this.#refuseSuspect();
    let last: ApiError | undefined;
    try {
      for (;;) {
        const place = await (this.#goingOn.error ? this.#admitAgain() : this.#admit(last));
        const end = await this.#attempt(place).run(this.#signal);
        this.#retries.tryEnded();
        this.#answer.tryEnded();
        if (end === "cancelled") throw clientClosed();
        // What is lost behind the last event is nothing that the caller misses.
        if (end === "answered" || this.#answer.finished) {
          this.#suspicion.answered();
          return;
        }
        this.#dispatch.record.tryFailed(end.error.detail);
        const inDoubt = await this.#reportLoss(place.member, end);
        if (this.#signal.aborted) throw clientClosed();
        last = end.error;
        const lost = { address: place.member.endpoint.address, failure: end, inDoubt };
        const waitMs = (await this.#goOn(lost)) ?? (await this.#startAnew(lost));
        if (waitMs > 0) await this.#sleep(waitMs);
        if (this.#signal.aborted) throw clientClosed();
      }
    } finally {
      this.#retries.end();
      this.#goingOn.end();
      this.#answer.forget();
      this.#dispatch.request.drop();
    }
  }

  /** Whether part of the answer has reached the caller. */
  get #isCommitted(): boolean {
    return this.#retries.state.at === "committed";
  }

  /** Makes what keeps the answer of the request. */
  #resumable(): ResumableAnswer {
    const { room, stats, continuation } = this.#parts;
    const { request, facts, record, sink } = this.#dispatch;
    return new ResumableAnswer({
      room,
      tenant: request.tenant,
      requestBytes: request.size,
      maxPerAnswer: continuation.maxPerAnswer,
      onGoesOn: () => {
        this.#goingOn.goesOn();
        sink.wentOn?.();
      },
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
  async #goOn({ address, failure, inDoubt }: LostTry): Promise<number | undefined> {
    const { requestOfDeath: settings } = this.#parts;
    if (!this.#answer.begun && !this.#isCommitted) return undefined;
    // What was lost along with others need not be what they were lost by.
    const waitMs = this.#goingOn.after(failure, address, inDoubt ? settings.mostDeaths : settings.endpoints);
    if (waitMs === undefined) return undefined;
    if (this.#answer.lostInARow >= settings.endpoints) await this.#sleep(settings.apartMs);
    // Its caller loses nothing by the time for which it is to stay away.
    if ((await this.#suspicion.stayAway()) === "allowed") return waitMs;
    this.#goingOn.giveUp("suspected");
    return undefined;
  }

  /**
   * Decides whether a request whose answer does not go on is tried again from the beginning. Resolves to how long to
   * wait before that, in milliseconds. Throws where it is not.
   */
  async #startAnew(lost: LostTry): Promise<number> {
    const { error, retriable } = lost.failure;
    const patient = !this.#isCommitted && this.#patience.failed(lost);
    if (patient) await this.#suspicion.stayAway();
    this.#refuseSuspect();
    if (this.#isCommitted) throw this.#goingOn.error ?? error;
    this.#goingOn.forget();
    this.#answer.forget();
    if (!retriable && !this.#answer.continued) throw this.#exhausted(error);
    return this.#repeat(error, patient);
  }

  /** Resolves to a place on an endpoint that goes on with an answer. Throws where there is none in time. */
  async #admitAgain(): Promise<Place> {
    const { clock } = this.#parts;
    const beganMs = clock.nowMs();
    for (;;) {
      const place = await this.#acquire();
      if (typeof place !== "string") {
        if (this.#goingOn.fits(place.member.endpoint)) return place;
        // What was avoided at first may be asked after a wait in which everything has changed.
        this.#tried.add(place.member.endpoint.address);
        place.release();
        continue;
      }
      const lookAgainMs = place === "all_tried" ? this.#goingOn.lookAgainMs(clock.nowMs() - beganMs) : undefined;
      if (lookAgainMs === undefined) {
        if (place !== "all_tried") this.#goingOn.giveUp("no_endpoint");
        const { error } = this.#goingOn;
        if (!error) throw this.#notAdmitted("none_available");
        throw this.#isCommitted ? error : this.#exhausted(error);
      }
      await this.#sleep(lookAgainMs);
      if (this.#signal.aborted) throw clientClosed();
    }
  }

  /** Resolves to a place for the next try, at once or after a wait in the queue, or to why there is none. */
  async #acquire(): Promise<Place | NotAdmitted> {
    const { hints, mayHold } = this.#dispatch;
    const { tenant, size: bytes } = this.#dispatch.request;
    const { pendingMs: timeoutMs } = this.#parts.timeouts;
    const route = this.#route;
    const tried = this.#tried;
    const underWay = this.#goingOn.error !== undefined || this.#patience.waits;
    const asked = { route, tenant, hints, tried, timeoutMs, bytes, underWay, mayHold: mayHold || underWay };
    const place = await this.#traffic.admission.acquire(asked, this.#signal);
    if (!this.#signal.aborted) return place;
    if (typeof place !== "string") place.release();
    throw clientClosed();
  }

  /**
   * Resolves to a place for a try that begins the answer. Throws where there is none; `last` is the error of the try
   * before.
   */
  async #admit(last: ApiError | undefined): Promise<Place> {
    let place = await this.#acquire();
    // What was avoided at first may be asked after a wait in which everything has changed.
    while (place === "all_tried" && this.#patience.waits) {
      this.#patience.forgive();
      await this.#sleep(LOOK_MS);
      place = await this.#acquire();
    }
    if (typeof place === "string") throw last && !this.#hasUntried() ? this.#exhausted(last) : this.#notAdmitted(place);
    this.#tried.add(place.member.endpoint.address);
    if (place.overdue) {
      this.#parts.stats.prefillOverdue(this.#dispatch.facts.model);
      this.#dispatch.record.overdue();
    }
    return place;
  }

  /** Returns the place with somebody who explains to the record what was cached there, and why not more. */
  #explained(place: Place): Place {
    const { record, facts } = this.#dispatch;
    const { clock } = this.#parts;
    const { shape, affinityKey } = this.#route;
    const request = { shape, affinityKey, cacheKey: facts.cacheKey };
    const sent = this.#traffic.ledger.sent(request, place.member.endpoint.address, clock.nowMs());
    const onNote = (note: CacheNote) => record.cached(note);
    const release = () => {
      place.release();
      sent.ended(clock.nowMs());
    };
    return { ...place, placement: explained(place.placement, { sent, onNote, clock }), release };
  }

  /** Makes the next try, on the endpoint that it has a place on. */
  #attempt(place: Place): Attempt {
    const { clock, stats, timeouts, room } = this.#parts;
    const { request, facts, record } = this.#dispatch;
    const { endpoint } = place.member;
    const traffic = this.#traffic;
    const answer = this.#answer;
    const description = room.isOpen ? endpoint.description(facts.model) : undefined;
    const resumption = answer.begin(description?.capabilities.includes(Capability.CONTINUATION) ?? false);
    const continuedTokens = answer.continued ? answer.tokens : undefined;
    const trace = record.generateSent(endpoint.address, continuedTokens);
    const kind: CallKind = this.#retries.state.at === "retrying" ? "retry" : "first";
    const running = stats.begin(facts.model, answer.continued ? "continuation" : kind);
    const inputTokens = promptBytes(this.#route.shape) / BYTES_PER_TOKEN + (continuedTokens ?? 0);
    const message = (held: Uint8Array) => messageFor(held, resumption);
    const { headers } = trace;
    return new Attempt({
      place: answer.continued ? place : this.#explained(place),
      answer,
      gate: this.#gate,
      continues: answer.continued,
      call: { request, message, headers, deadline: this.#deadline, clock, timeouts, inputTokens },
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
  #repeat(error: ApiError, patient: boolean): number {
    const { cluster, admission } = this.#traffic;
    const { mayHold } = this.#dispatch;
    const untouched = OUTCOMES[error.detail].untouched ?? false;
    // What an engine worked on when it was lost may be what it died of: it is not sent again to one that comes back.
    const waitMs = this.#retries.repeat({
      hasUntried: this.#hasUntried() || (mayHold && untouched),
      ...{ untouched, patient },
      activeAndPending: admission.breaker.activeAndPending + 1,
    });
    if (waitMs === undefined) throw this.#exhausted(error);
    const mayBeLast = !cluster.healthyEndpoints.some(({ address }) => !this.#tried.has(address));
    return mayHold && untouched && mayBeLast ? LOSS_KNOWN_MS : waitMs;
  }

  /** Notes a try whose endpoint may be lost. Resolves to whether that may be the doing of other requests. */
  async #reportLoss(member: ClusterMember, { ending: { kind }, workedMs }: UpstreamFailure): Promise<boolean> {
    const isDeath = kind === "reset" || kind === "stalled";
    if (!isDeath || workedMs === undefined || member.isLeaving(this.#parts.clock.nowMs())) return false;
    // An answer that has got on since it lost another engine is not what this one died of.
    const blamedMs = this.#answer.continued && this.#answer.gotOn ? Number.POSITIVE_INFINITY : workedMs;
    return this.#suspicion.lost({ address: member.endpoint.address, workedMs: blamedMs }, kind === "stalled");
  }

  /** Throws where the prompt fits into no endpoint's context window. */
  #refuseTooLong(): void {
    const { userTextBytes, beyond: found } = this.#dispatch.facts;
    const beyond = found ?? beyondBounds(userTextBytes, this.#traffic.cluster.promptBounds);
    if (beyond) throw contextExceeded(beyond.tokens, beyond.window);
  }

  /** Throws where the request kills engines, or may do so. */
  #refuseSuspect(): void {
    const { verdict } = this.#suspicion;
    if (verdict === "allowed") return;
    if (verdict !== "denied") throw this.#parts.refusals.suspected(verdict.laterMs);
    this.#parts.stats.requestDenied(this.#dispatch.facts.model);
    throw requestOfDeath();
  }

  /** Returns whether the cluster has an endpoint, be it well or not, that has not had its try at the request. */
  #hasUntried(): boolean {
    return this.#traffic.cluster.members.some(({ endpoint }) => !this.#tried.has(endpoint.address));
  }

  #exhausted(last: ApiError): ApiError {
    return this.#parts.refusals.exhausted(last, this.#traffic.admission);
  }

  #notAdmitted(why: NotAdmitted): ApiError {
    return this.#parts.refusals.notAdmitted(why, this.#dispatch.facts.model, this.#traffic.admission);
  }

  #sleep(ms: number): Promise<void> {
    return sleep(this.#parts.clock, ms, this.#signal);
  }
}
