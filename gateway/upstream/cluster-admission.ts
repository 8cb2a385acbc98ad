import type { PriorityClass } from "../../deploy/runtime/queue/class-share.ts";
import { onAbort } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { EndpointRoom } from "./admission/endpoint-room.ts";
import { type Holdable, OutageHold } from "./admission/outage-hold.ts";
import {
  type Admitted,
  isNoRoom,
  isWait,
  type NoRoom,
  type NotAdmitted,
  type PlaceRequest,
  PlaceSearch,
  type Seeker,
} from "./admission/place-search.ts";
import { PrefillTurns, type PrefillWait } from "./admission/prefill-turns.ts";
import { FIRST_RANK, type PrefillWaiter, PrefillWaits } from "./admission/prefill-waits.ts";
import { RecheckTimer } from "./admission/recheck-timer.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { Balancer } from "./load-balancing/balancer.ts";
import { noPick } from "./load-balancing/choose.ts";
import { CircuitBreaker, type CircuitBreakerState, limitsForSlots, type Permit } from "./queue/circuit-breaker.ts";
import { OUTPUT_RESERVE_TOKENS, type Pending, PendingQueue } from "./queue/pending-queue.ts";
import { TenantPlaces } from "./queue/tenant-places.ts";

/** The time between two looks at whether the time of waiting requests is up, in milliseconds. */
const RECHECK_MS = 100;

/** The number of requests that are looked at in one turn of those that wait for their prefill. */
const LOOKED_AT_PER_TURN = 256;

/** A cluster whose endpoints requests are let onto, as far as that needs to know it. */
export type AdmittedCluster<Member = ClusterMember> = Pick<
  Cluster,
  "settings" | "views" | "mayHaveEndpoints" | "announcedMs" | "onMembersChange" | "onHealthChange"
> & {
  /** Returns the member at an address; undefined where the cluster has none there. */
  member(address: string): Member | undefined;
};

type Waiting<Member> = Seeker &
  Holdable &
  PrefillWaiter & {
    readonly settle: (result: Admitted<Member> | NotAdmitted) => void;
  };

/**
 * Lets a cluster's requests onto its endpoints: as many at once as the circuit breaker allows, the others wait in a
 * queue that is bounded and fair between keys. While no endpoint is there, those that may be held wait in the same
 * queue, with bounds of their own, and leave it in the same order.
 */
export class ClusterAdmission<Member = ClusterMember> {
  /** The circuit breaker that counts the cluster's running and waiting requests. */
  readonly breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
  /** Knows which endpoints have room; whoever hears of one that it takes none for a while has it held back there. */
  readonly room: EndpointRoom;
  readonly #cluster: AdmittedCluster<Member>;
  readonly #balancer: Balancer;
  readonly #clock: Clock;
  readonly #queue: PendingQueue<Waiting<Member>>;
  readonly #places = new TenantPlaces();
  readonly #outage: OutageHold<Waiting<Member>>;
  readonly #turns: PrefillTurns;
  readonly #waits: PrefillWaits<Waiting<Member>>;
  readonly #search: PlaceSearch<Member>;
  readonly #recheck: RecheckTimer;
  /** What the endpoints' number of changes was when those were last let go for whom there is none any more. */
  #hopelessAt = 0;
  /** Whether there may be room that none of those who wait can take. */
  #hasSpareRoom = false;

  /** Begins without requests. `random` returns numbers that are even over [0, 1). */
  constructor(cluster: AdmittedCluster<Member>, balancer: Balancer, clock: Clock, random: () => number) {
    this.#cluster = cluster;
    this.#balancer = balancer;
    this.#clock = clock;
    const { circuitBreakers } = cluster.settings;
    const { workingSetWaitMs } = circuitBreakers;
    this.#queue = new PendingQueue(circuitBreakers.maxPendingRequestsPerKey);
    this.#outage = new OutageHold({
      settings: circuitBreakers,
      queue: this.#queue,
      mayHaveEndpoints: () => cluster.mayHaveEndpoints,
    });
    this.#waits = new PrefillWaits({ queue: this.#queue, workingSetWaitMs });
    this.#recheck = new RecheckTimer(clock, () => this.#serve());
    this.room = new EndpointRoom(cluster, this.breaker, clock, () => {
      if (this.#queue.size > 0) this.#recheck.armNow();
    });
    this.#turns = new PrefillTurns({
      ...{ clock, random, views: cluster.views },
      hasRoom: (view) => this.room.has(view),
    });
    this.#search = new PlaceSearch({
      ...{ balancer, room: this.room, clock },
      turns: workingSetWaitMs > 0 ? this.#turns : undefined,
      member: (address) => cluster.member(address),
      onRelease: () => this.#serve(),
    });
    cluster.onMembersChange(() => {
      this.#turns.forgetLeft();
      this.#serve();
    });
    cluster.onHealthChange(() => (this.#queue.size > 0 ? this.#serve() : this.#followEndpoints()));
  }

  /** Returns what the circuit breaker leaves free, by the limits of this moment. */
  breakerState(): CircuitBreakerState {
    this.#followEndpoints();
    return this.breaker.state;
  }

  /** The number of requests that wait for an endpoint. */
  get pending(): number {
    return this.#queue.size;
  }

  /** Returns the number of requests of one class of service that wait for an endpoint. */
  pendingOf(priorityClass: PriorityClass): number {
    return this.#queue.sizeOf(priorityClass);
  }

  /** The room of the requests that are held while no endpoint is there, for statistics. */
  get held(): OutageHold<Waiting<Member>>["room"] {
    return this.#outage.room;
  }

  /**
   * Returns for how long no endpoint has been usable, in milliseconds; undefined while one is. It is counted anew when
   * an endpoint announces itself that is not usable yet.
   */
  outageMs(): number | undefined {
    const { sinceMs } = this.#outage;
    if (sinceMs === undefined) return undefined;
    return this.#clock.nowMs() - Math.max(sinceMs, this.#cluster.announcedMs);
  }

  /**
   * Returns the time after which a request that came now would be served, in milliseconds; undefined while nothing is
   * known.
   */
  drainMs(): number | undefined {
    return this.#queue.drainMs(this.#clock.nowMs());
  }

  /**
   * Resolves with a place for the request, at once or after its turn in the queue, or with the reason why it gets none.
   * Aborting the signal takes the request out of the queue at once; the result then means nothing.
   */
  acquire(request: PlaceRequest, signal: AbortSignal): Promise<Admitted<Member> | NotAdmitted> {
    const demand = this.#places.want(request.tenant, this.#clock.nowMs());
    this.#followEndpoints();
    const { endpoints } = this.room;
    // Nobody passes those who wait but where they cannot go; bad news may. Coming makes no room.
    const mayAsk = request.underWay || this.#queue.size === 0 || endpoints.available.size === 0 || this.#hasSpareRoom;
    const seeker = { request, demand, overdue: false };
    const first = mayAsk ? this.#search.find(seeker, this.#waits.count > 0) : noPick(endpoints, request.tried);
    if (!isNoRoom(first) && !(request.mayHold && isOutage(first))) {
      if (typeof first === "string") demand.end();
      return Promise.resolve(first);
    }
    if (first === "kept_for_others" || isWait(first)) this.#hasSpareRoom = true;
    return new Promise((resolve) => this.#wait(seeker, isWait(first) ? first : undefined, signal, resolve));
  }

  /** Sends all waiting requests away and stops the timer. */
  close(): void {
    this.#recheck.disarm();
    this.room.close();
    for (const { value } of this.#queue.giveUp(() => true)) value.settle("no_endpoints");
  }

  /**
   * Lets a request wait for its turn, which `wait` says more about where no place alone is waited for, or holds it where
   * no endpoint is there. `resolve` is called once it is over.
   */
  #wait(
    seeker: Seeker,
    wait: PrefillWait | undefined,
    signal: AbortSignal,
    resolve: (result: Admitted<Member> | NotAdmitted) => void,
  ): void {
    const { request, demand } = seeker;
    const inOutage = this.#outage.sinceMs !== undefined;
    let permit: Permit | undefined;
    let letGo = () => {};
    const settle = (result: Admitted<Member> | NotAdmitted) => {
      const nowMs = this.#clock.nowMs();
      permit?.release();
      item.value.held?.release();
      letGo();
      this.#waits.waitFor(item, undefined, nowMs);
      if (typeof result === "string") demand.end();
      resolve(result);
    };
    const item = this.#pending(seeker, settle);
    if (wait) this.#waits.waitFor(item, wait, item.queuedMs);
    this.#dismissLate(item.queuedMs);
    const leave = (why: NotAdmitted) => {
      this.#queue.cancel(item);
      settle(why);
    };
    if (inOutage && !this.#outage.hold(item, item.queuedMs)) {
      settle("none_available");
      return;
    }
    const pushed = this.#queue.push(item);
    if (pushed.queued) pushed.dropped?.value.settle("pending_overflow");
    else if (pushed.limit === "key") {
      settle(inOutage ? "none_available" : "key_overflow");
      return;
    }
    // Also counts the one that finds the queue full.
    permit = this.breaker.tryPending();
    if (!permit && !request.underWay) {
      leave("pending_overflow");
      return;
    }
    this.#recheck.arm(RECHECK_MS);
    letGo = onAbort(signal, () => leave("pending_timeout"));
  }

  #pending({ request, demand }: Seeker, settle: Waiting<Member>["settle"]): Pending<Waiting<Member>> {
    const { route, tenant, hints, timeoutMs, underWay } = request;
    const nowMs = this.#clock.nowMs();
    return {
      key: tenant,
      keyId: hints.keyId,
      // While requests are held, the share of their tenant bounds those of a key that has no bound of its own.
      maxPendingPerKey:
        hints.maxPendingRequests ?? (this.#outage.sinceMs === undefined ? undefined : Number.POSITIVE_INFINITY),
      underWay,
      priorityClass: hints.priorityClass,
      weight: hints.weight,
      cost: this.#balancer.expectedTokens(route) + OUTPUT_RESERVE_TOKENS,
      queuedMs: nowMs,
      deadlineMs: nowMs + timeoutMs,
      hasFixedDeadline: underWay,
      rank: FIRST_RANK,
      value: {
        request,
        demand,
        settle,
        held: undefined,
        holdUntilMs: undefined,
        wait: undefined,
        overdue: false,
      },
    };
  }

  /** Lets the limits follow the endpoints as they come and go. */
  #followEndpoints(): void {
    const { maxRequests, maxPendingRequests, maxHeldRequests } = this.#cluster.settings.circuitBreakers;
    const { available, capacity } = this.room.endpoints;
    const bySlots = limitsForSlots(capacity);
    const maxWaiting = available.size > 0 ? (maxPendingRequests ?? bySlots.maxPendingRequests) : maxHeldRequests;
    this.breaker.setLimits({ maxRequests: maxRequests ?? bySlots.maxRequests, maxPendingRequests: maxWaiting });
    this.#queue.setMaxPending(maxWaiting);
    this.#outage.note(available.size, this.#clock.nowMs());
  }

  /** Gives free places to those who wait, and lets those go for whom there will be none in time. */
  #serve(): void {
    if (this.#queue.size === 0) return;
    this.#followEndpoints();
    const nowMs = this.#clock.nowMs();
    this.#dismissLate(nowMs);
    if (this.room.endpoints.available.size > 0) {
      this.#dismissHopeless();
      this.#serveInOrder(nowMs);
    }
    this.#recheck.disarm();
    if (this.#queue.size > 0) this.#recheck.arm(RECHECK_MS);
  }

  /** Refuses waiting requests whose deadline has passed, or lets them wait as overdue. */
  #dismissLate(nowMs: number): void {
    for (const item of this.#queue.expire(nowMs)) {
      const { value } = item;
      if (value.wait && !value.overdue && !value.held) this.#waits.beOverdue(item, nowMs);
      else value.settle(this.room.endpoints.available.size > 0 ? "pending_timeout" : "none_available");
    }
  }

  /** Lets those go that wait for an endpoint which is no more: all others have had their try. */
  #dismissHopeless(): void {
    const { endpoints } = this.room;
    if (endpoints.changes === this.#hopelessAt) return;
    this.#hopelessAt = endpoints.changes;
    const isHopeless = ({ request: { tried } }: Waiting<Member>) =>
      tried.size > 0 && noPick(endpoints, tried) === "all_tried";
    for (const { value } of this.#queue.giveUp(isHopeless)) value.settle("all_tried");
  }

  /** Serves requests in the queue's order, as long as somebody has room. */
  #serveInOrder(nowMs: number): void {
    const passedOver: { readonly item: Pending<Waiting<Member>>; readonly wait: PrefillWait | undefined }[] = [];
    // What is kept for others than a tenant is so for all of its requests.
    const aside = new Set<string>();
    const look = this.#turns.look();
    let triedAll = 0;
    let looks = 0;
    while (this.room.any && this.#queue.size > 0 && looks < LOOKED_AT_PER_TURN) {
      const item = this.#queue.next(aside);
      if (!item) break;
      const { value } = item;
      const { wait } = value;
      const result = wait && !look.isOver(wait) ? wait : this.#search.find(value);
      if (isNoRoom(result)) {
        passedOver.push({ item, wait: isWait(result) ? result : wait });
        if (result === "kept_for_others") aside.add(item.key);
        if (isWait(result)) {
          looks += 1;
          // All that come behind it in its tenant's row wait for their prefill, too.
          if (result.kind === "prefill" && !look.anyIdle()) aside.add(item.key);
        }
        // Whoever has room has had its try at this one; it may be another's turn.
        if (result === "all_full") triedAll += 1;
        if (triedAll >= this.room.endpoints.available.size) break;
        continue;
      }
      this.#queue.served(nowMs);
      item.value.settle(result);
    }
    this.#queue.putBack(passedOver.map(({ item }) => item));
    for (const { item, wait } of passedOver) this.#waits.waitFor(item, wait, nowMs);
    this.#hasSpareRoom = this.room.any;
  }
}

/** Returns whether a search found no endpoint at all, so that only an endpoint that comes back helps. */
function isOutage(result: Admitted<unknown> | NotAdmitted | NoRoom): boolean {
  return result === "no_endpoints" || result === "none_available";
}
