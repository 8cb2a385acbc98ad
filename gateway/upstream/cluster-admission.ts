import type { PriorityClass } from "../../deploy/runtime/queue/class-share.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { Balancer } from "./load-balancing/balancer.ts";
import type { NoPick } from "./load-balancing/choose.ts";
import { isWithinCaps } from "./load-balancing/endpoint-caps.ts";
import type { EndpointView } from "./load-balancing/endpoint-view.ts";
import type { Placement } from "./load-balancing/policy.ts";
import type { Route } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import { CircuitBreaker, type CircuitBreakerState, limitsForSlots, type Permit } from "./queue/circuit-breaker.ts";
import { OUTPUT_RESERVE_TOKENS, type Pending, PendingQueue } from "./queue/pending-queue.ts";

/**
 * The time between two looks at whether waiting requests can be served, in milliseconds: an endpoint that recovers
 * tells nobody here.
 */
const RECHECK_MS = 100;

/** The longest time for which an endpoint is believed that it has no room, in milliseconds. */
const MAX_HOLD_BACK_MS = 60_000;

/** A request that asks for a place on an endpoint of the cluster. */
export type PlaceRequest = {
  /** The digests of the prompt by which an endpoint is picked. */
  readonly route: Route;
  /** The tenant that the request belongs to: the queue is fair between tenants. */
  readonly tenant: string;
  /** What the queue and the picking of an endpoint may look at. */
  readonly hints: RoutingHints;
  /** The addresses of the endpoints that have had their try at the request. */
  readonly tried: ReadonlySet<string>;
  /** The longest time that the request waits in the queue, in milliseconds. */
  readonly timeoutMs: number;
};

/** A place on an endpoint, held by one try of a request. */
export type Admitted = {
  /** The member of the cluster that the place is on. */
  readonly member: ClusterMember;
  /** Follows the try for the load-balancing policy; undefined when the policy learns nothing from tries. */
  readonly placement: Placement | undefined;
  /** Gives the place back when the try is over. A second call does nothing. */
  release(): void;
};

/** The reason for which a request gets no place. */
export type NotAdmitted = Exclude<NoPick, "all_full"> | "pending_overflow" | "pending_timeout" | "key_overflow";

type Waiting = {
  readonly attempt: () => Admitted | NotAdmitted | "all_full";
  readonly settle: (result: Admitted | NotAdmitted) => void;
};

/**
 * Lets a cluster's requests onto its endpoints: as many at once as the circuit breaker allows, the others wait in a
 * queue that is bounded and fair between keys.
 */
export class ClusterAdmission {
  readonly #cluster: Cluster;
  readonly #balancer: Balancer;
  readonly #clock: Clock;
  readonly #breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
  readonly #queue: PendingQueue<Waiting>;
  /**
   * The moments at which endpoints have room again, in milliseconds of the monotonic clock, by the address of each one
   * that has said so.
   */
  readonly #heldBack = new Map<string, number>();
  /** The moment since which no endpoint is usable, in milliseconds of the monotonic clock; undefined while one is. */
  #noneSinceMs: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(cluster: Cluster, balancer: Balancer, clock: Clock) {
    this.#cluster = cluster;
    this.#balancer = balancer;
    this.#clock = clock;
    const { maxPendingRequestsPerKey: maxPendingPerKey, classShares, adaptiveLifo } = cluster.settings.circuitBreakers;
    this.#queue = new PendingQueue({ maxPendingPerKey, classShares, adaptiveLifo });
    cluster.onMembersChange(() => {
      for (const address of this.#heldBack.keys()) if (!cluster.member(address)) this.#heldBack.delete(address);
      this.#serve();
    });
  }

  /** The circuit breaker that counts the cluster's running and waiting requests. */
  get breaker(): CircuitBreaker {
    return this.#breaker;
  }

  /** Returns what the circuit breaker leaves free, by the limits of this moment. */
  breakerState(): CircuitBreakerState {
    this.#look();
    return this.#breaker.state;
  }

  /** The number of requests that wait for an endpoint. */
  get pending(): number {
    return this.#queue.size;
  }

  /** Returns the number of requests of one class of service that wait for an endpoint. */
  pendingOf(priorityClass: PriorityClass): number {
    return this.#queue.sizeOf(priorityClass);
  }

  /**
   * Returns the time after which a request that came now would be served, in milliseconds; undefined while nothing is
   * known.
   */
  drainMs(): number | undefined {
    return this.#queue.drainMs(this.#clock.nowMs());
  }

  /** Keeps requests away from an endpoint that has said that it takes none for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.set(address, this.#clock.nowMs() + Math.min(ms, MAX_HOLD_BACK_MS));
  }

  /**
   * Resolves with a place for the request, at once or after its turn in the queue, or with the reason why it gets none.
   * Aborting the signal takes the request out of the queue at once; the result then means nothing.
   */
  acquire(request: PlaceRequest, signal: AbortSignal): Promise<Admitted | NotAdmitted> {
    const usable = this.#look();
    const attempt = () => this.#attempt(request.route, request.tried);
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
      const item = this.#waiting(request, { attempt, settle });
      signal.addEventListener("abort", leave);
      this.#dismissLate(item.queuedMs);
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

  /** Sends all waiting requests away and stops the timer. */
  close(): void {
    this.#cancelTimer?.();
    this.#sendAway("no_endpoints");
  }

  #waiting({ route, tenant, hints, timeoutMs }: PlaceRequest, value: Waiting): Pending<Waiting> {
    const nowMs = this.#clock.nowMs();
    return {
      key: tenant,
      keyId: hints.keyId,
      maxPendingPerKey: hints.maxPendingRequests,
      priorityClass: hints.priorityClass,
      weight: hints.weight,
      cost: this.#balancer.expectedTokens(route) + OUTPUT_RESERVE_TOKENS,
      queuedMs: nowMs,
      deadlineMs: nowMs + timeoutMs,
      value,
    };
  }

  #attempt(route: Route, tried: ReadonlySet<string>): Admitted | NotAdmitted | "all_full" {
    const hasRoom = (view: EndpointView) =>
      !this.#isHeldBack(view.address) &&
      isWithinCaps(view, this.#cluster.settings.circuitBreakers.endpointCaps) &&
      this.#breaker.hasRoom(view.address, this.#cap(view));
    const choice = this.#balancer.pick(route, tried, hasRoom);
    if ("none" in choice) return choice.none;
    const { endpoint, placement } = choice.pick;
    const member = this.#cluster.member(endpoint.address);
    const permit = this.#breaker.tryRequest(endpoint.address, this.#cap(endpoint));
    if (!member || !permit) return "all_full";
    const release = () => {
      permit.release();
      this.#serve();
    };
    return { member, placement, release };
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

  /** Lets the limits follow the endpoints as they come and go. Returns the number of endpoints that are usable. */
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
  }

  #dismissLate(nowMs: number): void {
    for (const { value } of this.#queue.expire(nowMs)) value.settle("pending_timeout");
  }

  /** Serves requests in the queue's order, until one of them finds no place. */
  #serveInOrder(nowMs: number): void {
    const passedOver: Pending<Waiting>[] = [];
    while (this.#queue.size > 0 && this.#breaker.state.remainingRequests > 0) {
      const item = this.#queue.next();
      if (!item) break;
      const result = item.value.attempt();
      if (result !== "all_full") {
        this.#queue.served(item, nowMs);
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
