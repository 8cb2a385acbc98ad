import { linkAbort, waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { ApiError } from "../errors.ts";
import type { ContinuationOutcome, PrefillOutcome, UpstreamStats } from "../stats/upstream-stats.ts";
import type { Admitted, NotAdmitted } from "./admission/slot-request.ts";
import type { AttemptEnd, CallRecord } from "./call/call-record.ts";
import { callGenerate } from "./call/generate-call.ts";
import { contextExceeded, lostOnOrder, ourFault, type UpstreamFailure } from "./call/grpc-error.ts";
import { type EventSink, RetryBoundary } from "./call/retry-boundary.ts";
import type { Timeouts } from "./call/timeouts.ts";
import type { ClusterMember } from "./cluster/cluster-member.ts";
import type { ClusterTraffic } from "./cluster/cluster-traffic.ts";
import type { ContinuationBudget } from "./continuation/continuation-budget.ts";
import { OrderedLoss } from "./continuation/ordered-loss.ts";
import { ResumableAnswer } from "./continuation/resumable-answer.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { promptBytes } from "./load-balancing/boundary-hashes.ts";
import { type Route, type RoutingHints, routeOf } from "./load-balancing/route.ts";
import { clientClosed, type LocalReplies, requestOfDeath } from "./local-replies.ts";
import { readElsewhere } from "./prefill/prefill-leg.ts";
import type { PrefillPool } from "./prefill/prefill-pool.ts";
import { baseOf, type CallTerms, type PromptBase, type PromptFacts } from "./request/encoded-request.ts";
import type { RequestBuffer } from "./request/request-buffer.ts";
import type { Death, DeathCounter } from "./retry/death-counter.ts";
import type { RetryShare } from "./retry/retry-budget.ts";
import { type FailedAttempt, lossOf, type Next, nextStep, type Situation } from "./retry/retry-policy.ts";

/** The approximate bytes of prompt per token, by which time limits grow with the prompt. */
const BYTES_PER_TOKEN = 4;
/** The longest hold of a request whose caller receives nothing meanwhile: many proxies allow 60 s of silence. */
const SILENT_HOLD_MS = 50_000;

/** A request for an engine. */
export type Dispatch = {
  /** Dropped as soon as no attempt will need it any more. */
  readonly request: RequestBuffer;
  readonly facts: PromptFacts;
  readonly hints: RoutingHints;
  /** The time limit of the whole answer, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Whether its caller receives keep-alives while the request waits. */
  readonly keepsAlive: boolean;
  readonly sink: EventSink;
  readonly record: CallRecord;
};

/** The parts that the attempt loops of all requests share. */
export type AttemptLoopParts = {
  readonly clock: Clock;
  readonly timeouts: Timeouts;
  /** The memory for running answers that another endpoint could continue. */
  readonly continuationBudget: ContinuationBudget;
  readonly random: () => number;
  readonly stats: UpstreamStats;
  readonly deaths: DeathCounter;
  readonly replies: LocalReplies;
};

type Slot = Admitted<ClusterMember>;

/** The prefill nodes of a cluster, with the rule by which they read prompts for its endpoints. */
export type Prefill = { readonly pool: PrefillPool<ClusterMember>; readonly traffic: ClusterTraffic };

/** What each call of an attempt says for itself. */
type OwnTerms = Pick<CallTerms, "base" | "promptHandOver">;

type AttemptStep = Next & { readonly kind: "attempt" };

/** The slot of the next attempt, and the decision for it. */
type AdmittedAttempt = { readonly slot: Slot; readonly step: AttemptStep };

/**
 * The life of one request after its translation:
 *
 * 1. refuse a prompt that fits no endpoint, as found by its translation;
 * 2. request the next step from the retry policy, by the failed attempts (`nextStep`);
 * 3. give up, or wait until the endpoints change or a back-off ends and repeat 2, or
 * 4. wait for a slot on an endpoint that the policy allows, in the queue of the cluster;
 * 5. call the endpoint: events pass the retry boundary, which holds back those that a further attempt would have to
 *    retract;
 * 6. return when the answer is complete; otherwise add the attempt to the list and continue at 2.
 */
export class AttemptLoop {
  readonly #dispatch: Dispatch;
  readonly #traffic: ClusterTraffic;
  /** The nodes that may read the prompt; undefined where the cluster has none. */
  readonly #prefill: Prefill | undefined;
  readonly #parts: AttemptLoopParts;
  readonly #signal: AbortSignal;
  readonly #route: Route;
  /** The time limit of a wait for a slot, in milliseconds. */
  readonly #pendingMs: number;
  /** A keyed digest of the whole prompt, by which its deaths are counted. */
  readonly #digest: string;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly #deadline: number;
  readonly #boundary: RetryBoundary;
  readonly #answer: ResumableAnswer;
  /** The failed attempts, oldest first: the entire input of the retry policy. */
  #history: readonly FailedAttempt[] = [];
  /** The deaths of endpoints that worked on the request. */
  #died: readonly Death[] = [];
  /** The share of the retry budget held for the next or the running attempt. */
  #share: RetryShare = "none";

  /** Aborting the signal ends the loop. */
  constructor(
    dispatch: Dispatch,
    { traffic, prefill }: { readonly traffic: ClusterTraffic; readonly prefill?: Prefill | undefined },
    parts: AttemptLoopParts,
    signal: AbortSignal,
  ) {
    this.#dispatch = dispatch;
    this.#traffic = traffic;
    this.#prefill = prefill;
    this.#parts = parts;
    this.#signal = signal;
    const { clock, timeouts } = parts;
    const { request, facts, hints, sink } = dispatch;
    this.#deadline = clock.wallMs() + dispatch.timeoutMs;
    this.#route = routeOf(facts, hints);
    this.#digest = this.#route.shape.boundaries.at(-1)?.hash ?? "";
    this.#pendingMs = timeouts.pendingMs;
    this.#answer = this.#resumable();
    this.#boundary = new RetryBoundary(sink, () => {
      this.#freeShare();
      if (this.#answer.kept) request.taken();
      else request.drop();
    });
  }

  /** Answers the request; called once. Resolves when the answer is complete. Throws `ApiError`. */
  async run(): Promise<void> {
    const { facts, request } = this.#dispatch;
    try {
      if (facts.beyond) throw contextExceeded(facts.beyond.tokens, facts.beyond.window);
      for (;;) {
        const admitted = await this.#admitted();
        const end = await this.#attempt(admitted);
        this.#freeShare();
        this.#answer.attemptEnded();
        if (end === "cancelled") throw clientClosed();
        // A loss after the last event costs the client nothing.
        if (end === "answered" || this.#answer.finished) break;
        this.#history = [...this.#history, await this.#failed(admitted, end)];
      }
      this.#parts.deaths.answered(this.#digest);
    } finally {
      this.#freeShare();
      this.#answer.forget();
      request.drop();
    }
  }

  /**
   * Resolves to the slot of the next attempt. Throws where the policy gives up, and where the cluster has none in time.
   */
  async #admitted(): Promise<AdmittedAttempt> {
    for (;;) {
      if (this.#signal.aborted) throw clientClosed();
      const step = nextStep(this.#history, this.#situation(), { pendingMs: this.#pendingMs, holdMs: this.#holdMs() });
      if (step.kind === "give_up") throw this.#givenUp(step);
      if (!this.#takeShare(step.share)) throw this.#exhausted();
      if (step.kind === "wait") {
        await this.#endpointsChange(step.untilMs);
        continue;
      }
      const slot = await this.#acquire(step);
      if (typeof slot === "string") {
        // The endpoints have changed during the wait in the queue.
        if (slot === "all_tried" && step.underWay) continue;
        throw this.#notAdmitted(slot, step);
      }
      // After an outage any endpoint may come first.
      if (!step.continues || this.#continues(slot.member.endpoint)) return { slot, step };
      slot.release();
    }
  }

  async #acquire({ avoid: tried, underWay }: AttemptStep): Promise<Slot | NotAdmitted> {
    const { hints, keepsAlive, request } = this.#dispatch;
    const { tenant, size: bytes } = request;
    // Only a first attempt is worth two nodes.
    const readers = this.#history.length === 0 ? this.#prefill?.pool : undefined;
    const asked = {
      route: this.#route,
      tenant,
      hints,
      tried,
      timeoutMs: this.#pendingMs,
      bytes,
      underWay,
      keepsAlive,
      readers,
    };
    const slot = await this.#traffic.admission.acquire({ ...asked, holdMs: this.#holdMs() }, this.#signal);
    if (!this.#signal.aborted) return slot;
    if (typeof slot !== "string") slot.release();
    throw clientClosed();
  }

  /** The time for which the request is held or retried in an outage: shorter in silence, before any work is lost. */
  #holdMs(): number {
    const { noEndpointHoldMs } = this.#traffic.cluster.settings.circuitBreakers;
    const mayBeLong = this.#dispatch.keepsAlive || this.#history.some(({ failure }) => failure.workedMs !== undefined);
    return mayBeLong ? noEndpointHoldMs : Math.min(noEndpointHoldMs, SILENT_HOLD_MS);
  }

  /** Makes the next attempt in its slot. Resolves to its end; never rejects. */
  async #attempt({ slot, step }: AdmittedAttempt): Promise<AttemptEnd> {
    const { clock, stats, timeouts, continuationBudget } = this.#parts;
    const { request, facts, record } = this.#dispatch;
    const { member, observer } = slot;
    const { endpoint } = member;
    const answer = this.#answer;
    const inputTokens = promptBytes(this.#route.shape) / BYTES_PER_TOKEN;
    const handOver = slot.reader && (await this.#readElsewhere(slot, inputTokens));
    if (this.#signal.aborted) {
      slot.release();
      return "cancelled";
    }
    if (slot.overdue) {
      stats.prefillOverdue.inc({ cluster: facts.model });
      record.overdue();
    }
    if (step.notContinued) this.#countNotContinued(step.notContinued);
    const description = continuationBudget.isOpen ? endpoint.description(facts.model) : undefined;
    const canContinue = description?.capabilities.includes(Capability.CONTINUATION) ?? false;
    const resumption = answer.begin(canContinue, step.continues);
    const { continued } = answer;
    const continuedTokens = continued ? answer.tokens : undefined;
    const headers = record.generateSent(endpoint.address, continuedTokens);
    const kind = continued ? "continuation" : this.#history.length === 0 ? "first" : "retry";
    stats.begin(facts.model, kind);
    member.beginCall(continued);
    const order = this.#dispatch.hints.losesEngine ? this.#orderedLoss() : undefined;
    const call = (terms: OwnTerms) =>
      callGenerate(
        {
          ...{ endpoint, request, resumption, headers, deadline: this.#deadline, clock, timeouts, ...terms },
          inputTokens: inputTokens + (continuedTokens ?? 0),
          ...{
            observer,
            notes: continued ? undefined : record,
            answer: order?.answer ?? answer,
            boundary: this.#boundary,
          },
        },
        order?.signal ?? this.#signal,
      ).catch(ourFault);
    let found = await this.#calls(slot, handOver, call);
    if (order?.lost) found = lostOnOrder();
    order?.release();
    const failure = this.#signal.aborted ? undefined : found;
    const end = this.#signal.aborted ? "cancelled" : (found ?? "answered");
    member.endCall(failure?.retriable ?? false);
    record.generateEnded(end);
    stats.end(facts.model, kind, failure?.error.detail ?? (end === "answered" ? "answered" : "cancelled"));
    if (end !== "cancelled") this.#traffic.report(endpoint.address, failure, clock.nowMs());
    slot.release();
    return end;
  }

  /**
   * Makes the call of an attempt, and again with all messages where the endpoint lacks those left out, or without the
   * hand-over where it could not take it.
   */
  async #calls(
    slot: Slot,
    promptHandOver: OwnTerms["promptHandOver"],
    call: (terms: OwnTerms) => Promise<UpstreamFailure | undefined>,
  ): Promise<UpstreamFailure | undefined> {
    const { promptBases } = this.#parts.stats;
    const cluster = this.#dispatch.facts.model;
    let base = this.#baseOn(slot);
    let found = await call({ base, promptHandOver });
    const isUnknown = base !== undefined && found?.lacksBase === true;
    // A call that failed otherwise says nothing of the base.
    if (base && (isUnknown || !found)) promptBases.inc({ cluster, base: isUnknown ? "unknown" : "found" });
    if (isUnknown) base = undefined;
    if (isUnknown && !this.#signal.aborted) found = await call({ base, promptHandOver });
    if (!found?.handOverLost || this.#signal.aborted) return found;
    this.#readsHere(slot, "lost");
    return call({ base });
  }

  /** Has a prefill node read the prompt where the slot has one. Resolves to what the call of the slot says of it. */
  async #readElsewhere(slot: Slot, inputTokens: number): Promise<OwnTerms["promptHandOver"]> {
    const { reader } = slot;
    if (!reader || !this.#prefill) return undefined;
    const { clock, timeouts, stats } = this.#parts;
    const { request, facts, record } = this.#dispatch;
    const { traffic } = this.#prefill;
    const made = await readElsewhere(
      {
        ...{ slot: reader, traffic, request, headers: record.prefillSent(), deadline: this.#deadline },
        ...{ clock, timeouts, inputTokens, boundary: this.#boundary },
        onEnd: (outcome) => stats.prefills.inc({ cluster: facts.model, outcome }),
      },
      this.#signal,
    );
    if (!made) {
      this.#readsHere(slot);
      return undefined;
    }
    record.prefilledOn(reader.member.address);
    return { bytes: made.bytes, leftMs: made.untilMs - clock.nowMs() };
  }

  /** Records that the endpoint of a slot reads the prompt itself after all, and how the hand-over ended, if there was one. */
  #readsHere({ observer }: Slot, outcome?: PrefillOutcome): void {
    const { facts, record } = this.#dispatch;
    observer?.readElsewhere?.(false);
    record.prefilledOn(undefined);
    if (outcome) this.#parts.stats.prefills.inc({ cluster: facts.model, outcome });
  }

  /** Makes the signal of an attempt that is lost as its request has ordered, and what aborts it; undefined after that. */
  #orderedLoss() {
    if (this.#history.some(({ failure }) => failure.ordered)) return undefined;
    const { signal, abort, release } = linkAbort(this.#signal);
    const order = { signal, release, lost: false, answer: new OrderedLoss(this.#answer, () => lose()) };
    const lose = () => {
      order.lost = true;
      abort(undefined);
    };
    return order;
  }

  /** Returns what the endpoint of a slot has of the prompt, so that it can be left out. */
  #baseOn({ member: { endpoint }, observer }: Slot): PromptBase | undefined {
    const description = endpoint.description(this.#dispatch.facts.model);
    const { heldUpTo } = observer ?? {};
    if (heldUpTo === undefined || !description?.capabilities.includes(Capability.PROMPT_BASE)) return undefined;
    return baseOf(this.#route.shape, heldUpTo);
  }

  /** Resolves to the record of a failed attempt, once the simultaneous losses are counted. */
  async #failed({ slot: { member } }: AdmittedAttempt, failure: UpstreamFailure): Promise<FailedAttempt> {
    const { clock, deaths, random } = this.#parts;
    const { begun, tokens, continued, resumed, workedOn: accepted, advanced } = this.#answer;
    const { address } = member.endpoint;
    const { ending, workedMs, waited = false } = failure;
    this.#dispatch.record.attemptFailed(failure.error.detail);
    const isDeath = ending.kind === "reset" || ending.kind === "stalled";
    let othersLost = waited;
    if (isDeath && workedMs !== undefined && !member.isLeaving(clock.nowMs())) {
      // A waiting request, and an answer that has progressed since it lost another endpoint, did not cause this loss.
      const blamedMs = waited || (continued && advanced) ? Number.POSITIVE_INFINITY : workedMs;
      const death = await deaths.died(this.#digest, address, blamedMs, ending.kind === "stalled", this.#signal);
      this.#died = [...this.#died.filter((one) => one !== death), death];
      othersLost ||= deaths.othersLost(this.#died);
    }
    return {
      ...{ address, failure, continued, resumed, accepted, advanced, othersLost },
      endedMs: clock.nowMs(),
      committed: this.#boundary.committed,
      tokens: begun ? tokens : 0,
      jitter: random(),
    };
  }

  #situation(): Situation {
    const { clock, deaths } = this.#parts;
    const { cluster } = this.#traffic;
    const state = { nowMs: clock.nowMs(), verdict: deaths.judge(this.#digest) };
    // The first attempt may use any endpoint: the cluster's queue and policy choose it.
    if (this.#history.length === 0) return { ...state, endpoints: [] };
    const available = new Set(cluster.healthyEndpoints);
    const endpoints = cluster.endpoints.map((endpoint) => ({
      address: endpoint.address,
      available: available.has(endpoint),
      continues: this.#continues(endpoint),
    }));
    return { ...state, endpoints };
  }

  /** Returns whether an endpoint can continue the answer; undefined where it has not described the model yet. */
  #continues(endpoint: Endpoint): boolean | undefined {
    const description = endpoint.description(this.#traffic.cluster.model);
    if (!description) return undefined;
    const { revision, capabilities } = description;
    if (!capabilities.includes(Capability.CONTINUATION)) return false;
    // It renders this prompt otherwise, or counts as lost.
    const isRefused = ({ address, failure: { otherPrompt, ordered } }: FailedAttempt) =>
      address === endpoint.address && (otherPrompt === true || ordered === true);
    if (this.#history.some(isRefused)) return false;
    const byDigest = this.#answer.promptDigest !== undefined && capabilities.includes(Capability.PROMPT_DIGEST);
    return byDigest || revision === "" || revision === this.#answer.revision;
  }

  /** Resolves at `untilMs`, or before when an endpoint joins, leaves, or becomes available or unavailable. */
  async #endpointsChange(untilMs: number): Promise<void> {
    const { clock } = this.#parts;
    const { cluster } = this.#traffic;
    await waitUnlessAborted<void>(this.#signal, (wake) => {
      const stopListening = cluster.onAvailabilityChange(wake);
      const stopTimer = clock.after(Math.max(0, untilMs - clock.nowMs()), wake);
      return () => {
        stopListening();
        stopTimer();
      };
    });
  }

  #resumable(): ResumableAnswer {
    const { continuationBudget, stats, clock } = this.#parts;
    const { request, facts, record } = this.#dispatch;
    return new ResumableAnswer({
      budget: continuationBudget,
      tenant: request.tenant,
      requestBytes: request.size,
      onGoesOn: () => {
        const nowMs = clock.nowMs();
        stats.continued(facts.model, "went_on", nowMs - (lossOf(this.#history)?.endedMs ?? nowMs));
        this.#freeShare();
      },
      onNotKept: (why) => {
        stats.notKept.inc({ cluster: facts.model, reason: why });
        record.notKept(why);
        // No other endpoint will need it any more.
        if (request.isTaken) request.drop();
      },
    });
  }

  /** Takes the share of the retry budget that the next attempt needs. Returns false where the budget has none. */
  #takeShare(share: RetryShare): boolean {
    if (this.#share === share) return true;
    this.#freeShare();
    const { budget, admission } = this.#traffic;
    if (share !== "none" && !budget.take(share, admission.active + 1)) return false;
    this.#share = share;
    return true;
  }

  #freeShare(): void {
    if (this.#share !== "none") this.#traffic.budget.free(this.#share);
    this.#share = "none";
  }

  #givenUp({ why, error, laterMs, notContinued }: Next & { readonly kind: "give_up" }): ApiError {
    if (notContinued) this.#countNotContinued(notContinued);
    if (why === "suspected") return this.#parts.replies.suspected(laterMs ?? 0);
    if (why === "denied" || !error) {
      this.#parts.stats.requestsOfDeath.inc({ cluster: this.#dispatch.facts.model });
      return requestOfDeath();
    }
    return why === "exhausted" ? this.#exhausted(error) : error;
  }

  /** Returns the error of a request that gets no slot for its next attempt. */
  #notAdmitted(why: NotAdmitted, { continues, notContinued }: AttemptStep): ApiError {
    const { cluster, admission } = this.#traffic;
    const missed = continues ? "no_endpoint" : notContinued;
    if (missed) this.#countNotContinued(missed);
    const loss = lossOf(this.#history)?.failure.error;
    if (loss && continues) return this.#boundary.committed ? loss : this.#exhausted(loss);
    const tried = new Set(this.#history.map(({ address }) => address));
    if (loss && cluster.endpoints.every(({ address }) => tried.has(address))) return this.#exhausted();
    return this.#parts.replies.notAdmitted(why, this.#dispatch.facts.model, admission);
  }

  #exhausted(error = this.#history.at(-1)?.failure.error ?? clientClosed()): ApiError {
    return this.#parts.replies.exhausted(error, this.#traffic.admission);
  }

  #countNotContinued(why: ContinuationOutcome): void {
    this.#parts.stats.continued(this.#dispatch.facts.model, why);
  }
}
