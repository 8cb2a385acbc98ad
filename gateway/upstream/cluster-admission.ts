import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { Balancer, Route } from "./load-balancing/balancer.ts";
import type { NoPick } from "./load-balancing/choose.ts";
import { DEFAULT_ENDPOINT_CAPS, isWithinCaps } from "./load-balancing/endpoint-caps.ts";
import type { EndpointView } from "./load-balancing/endpoint-view.ts";
import type { Placement } from "./load-balancing/placement.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import { CircuitBreaker, type CircuitBreakerState, limitsForSlots, type Permit } from "./queue/circuit-breaker.ts";
import type { PriorityClass } from "./queue/class-share.ts";
import { DrainEstimate } from "./queue/drain-estimate.ts";
import { DEFAULT_PENDING_QUEUE, type Pending, PendingQueue } from "./queue/pending-queue.ts";

/** Between two looks at whether those who wait can be served: an endpoint that recovers tells nobody here. */
const RECHECK_MS = 100;

/** Nobody is believed to be full for longer than this. */
const MAX_HOLD_BACK_MS = 60_000;

/** Output tokens that a request counts in the fair queue beside its prompt. */
const OUTPUT_RESERVE_TOKENS = 1_024;

/** A place on an endpoint. */
export type Admitted = {
  readonly member: ClusterMember;
  readonly placement: Placement | undefined;
  /** When the try is over. May be called again; counts once. */
  release(): void;
};

/** Why a request gets no place. */
export type NotAdmitted = Exclude<NoPick, "all_full"> | "pending_overflow" | "pending_timeout" | "key_overflow";

type Waiting = {
  readonly attempt: () => Admitted | NotAdmitted | "all_full";
  readonly settle: (result: Admitted | NotAdmitted) => void;
};

/**
 * Lets a cluster's requests onto its endpoints: as many at once as the circuit breaker allows, the others wait in a queue
 * that is bounded and fair between keys.
 */
export class Admission {
  readonly #cluster: Cluster;
  readonly #balancer: Balancer;
  readonly #clock: Clock;
  readonly #breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
  readonly #queue: PendingQueue<Waiting>;
  readonly #drain = new DrainEstimate();
  /** Endpoints that have said when they have room again: monotonic milliseconds. */
  readonly #heldBack = new Map<string, number>();
  /** Since when no endpoint is usable. */
  #noneSinceMs: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(cluster: Cluster, balancer: Balancer, clock: Clock) {
    this.#cluster = cluster;
    this.#balancer = balancer;
    this.#clock = clock;
    const { maxPendingRequestsPerKey: maxPendingPerKey, adaptiveLifo } = cluster.settings.circuitBreakers;
    this.#queue = new PendingQueue({ ...DEFAULT_PENDING_QUEUE, maxPendingPerKey, adaptiveLifo });
    cluster.onMembersChange(() => {
      for (const address of this.#heldBack.keys()) if (!cluster.member(address)) this.#heldBack.delete(address);
      this.#serve();
    });
  }

  get breaker(): CircuitBreaker {
    return this.#breaker;
  }

  /** By the limits of this moment. */
  breakerState(): CircuitBreakerState {
    this.#look();
    return this.#breaker.state;
  }

  get pending(): number {
    return this.#queue.size;
  }

  pendingOf(priorityClass: PriorityClass): number {
    return this.#queue.sizeOf(priorityClass);
  }

  /** Milliseconds until one more who came now would be served; undefined while nothing is known. */
  drainMs(): number | undefined {
    return this.#drain.waitMs(this.#queue.size, this.#clock.nowMs());
  }

  /** The endpoint has said that it takes no request for `ms`. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.set(address, this.#clock.nowMs() + Math.min(ms, MAX_HOLD_BACK_MS));
  }

  /**
   * A place for a request of `key`, at once or after its turn in the queue. `tried`: addresses that had their try.
   * Aborting the signal leaves the queue at once; the result then means nothing.
   */
  acquire(
    route: Route,
    key: string,
    hints: RoutingHints,
    tried: ReadonlySet<string>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<Admitted | NotAdmitted> {
    const usable = this.#look();
    const attempt = () => this.#attempt(route, tried);
    // Nobody passes those who wait; bad news may.
    const first = this.#queue.size === 0 || usable === 0 ? attempt() : "all_full";
    if (first !== "all_full") return Promise.resolve(first);
    return new Promise((resolve) => {
      let permit: Permit | undefined;
      const leave = () => {
        this.#queue.cancel(item);
        settle("pending_timeout");
      };
      const settle = (result: Admitted | NotAdmitted) => {
        permit?.release();
        signal.removeEventListener("abort", leave);
        resolve(result);
      };
      const nowMs = this.#clock.nowMs();
      const item: Pending<Waiting> = {
        key,
        keyId: hints.keyId,
        maxPendingPerKey: hints.maxPendingRequests,
        priorityClass: hints.priorityClass,
        weight: hints.weight,
        cost: this.#balancer.expectedTokens(route) + OUTPUT_RESERVE_TOKENS,
        queuedMs: nowMs,
        deadlineMs: nowMs + timeoutMs,
        value: { attempt, settle },
      };
      signal.addEventListener("abort", leave);
      this.#dismissLate(nowMs);
      const pushed = this.#queue.push(item);
      if (pushed.queued) pushed.dropped?.value.settle("pending_overflow");
      else if (pushed.limit === "key") return settle("key_overflow");
      // Also counts the one that finds the queue full.
      permit = this.#breaker.tryPending();
      if (!permit) this.#queue.cancel(item);
      if (!permit) settle("pending_overflow");
      else if (signal.aborted) leave();
      else this.#serve();
    });
  }

  close(): void {
    this.#cancelTimer?.();
    this.#sendAway("no_endpoints");
  }

  #attempt(route: Route, tried: ReadonlySet<string>): Admitted | NotAdmitted | "all_full" {
    const hasRoom = (view: EndpointView) =>
      !this.#isHeldBack(view.address) &&
      isWithinCaps(view, DEFAULT_ENDPOINT_CAPS) &&
      this.#breaker.hasRoom(view.address, this.#cap(view));
    const choice = this.#balancer.pick(route, tried, hasRoom);
    if ("none" in choice) return choice.none;
    const member = this.#cluster.member(choice.pick.address);
    const permit = this.#breaker.tryRequest(choice.pick.address, this.#cap(choice.pick));
    if (!member || !permit) return "all_full";
    const release = () => {
      permit.release();
      this.#serve();
    };
    return { member, placement: choice.placement, release };
  }

  #cap({ slots }: EndpointView): number {
    return this.#cluster.settings.circuitBreakers.maxRequestsPerEndpoint ?? slots;
  }

  #isHeldBack(address: string): boolean {
    const untilMs = this.#heldBack.get(address);
    if (untilMs === undefined || this.#clock.nowMs() < untilMs) return untilMs !== undefined;
    this.#heldBack.delete(address);
    return false;
  }

  /** The limits follow the endpoints as they come and go. Returns how many of these are usable. */
  #look(): number {
    const { maxRequests, maxPendingRequests } = this.#cluster.settings.circuitBreakers;
    const usable = this.#balancer.usable();
    if (usable.length > 0) this.#noneSinceMs = undefined;
    else this.#noneSinceMs ??= this.#clock.nowMs();
    const bySlots = limitsForSlots(usable.reduce((sum, view) => sum + this.#cap(view), 0));
    const limits = {
      maxRequests: maxRequests ?? bySlots.maxRequests,
      maxPendingRequests: maxPendingRequests ?? bySlots.maxPendingRequests,
    };
    this.#breaker.setLimits(limits);
    this.#queue.setMaxPending(limits.maxPendingRequests);
    return usable.length;
  }

  /** Gives free places to those who wait, and lets those go for whom there will be none in time. */
  #serve(): void {
    if (this.#queue.size === 0) return;
    const usable = this.#look();
    const nowMs = this.#clock.nowMs();
    this.#dismissLate(nowMs);
    if (usable > 0) this.#serveInOrder(nowMs);
    else if (nowMs - (this.#noneSinceMs ?? nowMs) >= this.#cluster.settings.circuitBreakers.failfastMs)
      this.#sendAway("none_available");
    this.#cancelTimer?.();
    this.#cancelTimer = this.#queue.size > 0 ? this.#clock.after(RECHECK_MS, () => this.#serve()) : undefined;
    if (this.#queue.size === 0) this.#drain.empty();
  }

  #dismissLate(nowMs: number): void {
    for (const { value } of this.#queue.expire(nowMs)) value.settle("pending_timeout");
  }

  /** In the queue's order, until one of them finds no place. */
  #serveInOrder(nowMs: number): void {
    const passedOver: Pending<Waiting>[] = [];
    while (this.#queue.size > 0 && this.#breaker.state.remainingRequests > 0) {
      const item = this.#queue.next();
      if (!item) break;
      const result = item.value.attempt();
      if (result !== "all_full") {
        this.#queue.served(item, nowMs);
        this.#drain.served(nowMs);
        item.value.settle(result);
        // Its own endpoints are full, or had their try: another's may not be.
      } else if (passedOver.push(item) >= this.#cluster.members.length) break;
    }
    this.#queue.putBack(passedOver);
  }

  #sendAway(why: NotAdmitted): void {
    for (let item = this.#queue.next(); item; item = this.#queue.next()) item.value.settle(why);
  }
}
