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

/** The interval between two checks of waiting requests' deadlines, in milliseconds. */
const RECHECK_MS = 100;

/** The number of requests examined in one turn of those that wait for prefill. */
const LOOKED_AT_PER_TURN = 256;

/** The part of a cluster that admission uses. */
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
 * Admits a cluster's requests to its endpoints: as many at once as the circuit breaker allows; the others wait in a
 * bounded queue that is fair between keys. While no endpoint is usable, requests that may be held wait in the same
 * queue, with limits of their own, and leave it in the same order.
 */
export class ClusterAdmission<Member = ClusterMember> {
  /** The circuit breaker that counts the cluster's running and pending requests. */
  readonly breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
  /** Decides which endpoints have room, and holds back one that announces to refuse requests for a while. */
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
  /** The endpoints' number of changes at the last dismissal of requests without an endpoint. */
  #hopelessAt = 0;
  /** Whether there may be room that no waiting request can take. */
  #hasSpareRoom = false;

  /** `random` returns numbers uniform over [0, 1). */
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

  /** Returns the circuit breaker's remaining capacity, by the current limits. */
  breakerState(): CircuitBreakerState {
    this.#followEndpoints();
    return this.breaker.state;
  }

  /** The number of requests that wait for an endpoint. */
  get pending(): number {
    return this.#queue.size;
  }

  /** Returns the number of requests of one priority class that wait for an endpoint. */
  pendingOf(priorityClass: PriorityClass): number {
    return this.#queue.sizeOf(priorityClass);
  }

  /** The requests held in an outage, for statistics. */
  get held(): OutageHold<Waiting<Member>>["room"] {
    return this.#outage.room;
  }

  /**
   * Returns the duration of the outage in milliseconds; undefined while an endpoint is usable. It restarts when an
   * endpoint announces itself that is not usable yet.
   */
  outageMs(): number | undefined {
    const { sinceMs } = this.#outage;
    if (sinceMs === undefined) return undefined;
    return this.#clock.nowMs() - Math.max(sinceMs, this.#cluster.announcedMs);
  }

  /** Returns the expected wait of a request that arrives now, in milliseconds; undefined without an estimate. */
  drainMs(): number | undefined {
    return this.#queue.drainMs(this.#clock.nowMs());
  }

  /**
   * Resolves with a place for the request, at once or after its turn in the queue, or with the reason why it gets none.
   * Aborting the signal removes the request from the queue at once; the result is then meaningless.
   */
  acquire(request: PlaceRequest, signal: AbortSignal): Promise<Admitted<Member> | NotAdmitted> {
    const demand = this.#places.want(request.tenant, this.#clock.nowMs());
    this.#followEndpoints();
    const { endpoints } = this.room;
    // A request passes waiting ones only where those cannot go. A refusal is returned at once. An arrival makes no
    // room.
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

  /** Refuses all waiting requests and stops the timer. */
  close(): void {
    this.#recheck.disarm();
    this.room.close();
    for (const { value } of this.#queue.giveUp(() => true)) value.settle("no_endpoints");
  }

  /**
   * Queues a request, with the prefill wait `wait` if any, or holds it in an outage. `resolve` is called once with the
   * result.
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
    // Also counts the request that finds the queue full.
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
      // During an outage, the tenant's share limits the requests of a key without a limit of its own.
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

  /** Adjusts the limits as endpoints join and leave. */
  #followEndpoints(): void {
    const { maxRequests, maxPendingRequests, maxHeldRequests } = this.#cluster.settings.circuitBreakers;
    const { available, capacity } = this.room.endpoints;
    const bySlots = limitsForSlots(capacity);
    const maxWaiting = available.size > 0 ? (maxPendingRequests ?? bySlots.maxPendingRequests) : maxHeldRequests;
    this.breaker.setLimits({ maxRequests: maxRequests ?? bySlots.maxRequests, maxPendingRequests: maxWaiting });
    this.#queue.setMaxPending(maxWaiting);
    this.#outage.note(available.size, this.#clock.nowMs());
  }

  /** Assigns free places to waiting requests, and dismisses those that get none in time. */
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

  /** Refuses waiting requests whose deadline has passed, or marks them overdue. */
  #dismissLate(nowMs: number): void {
    for (const item of this.#queue.expire(nowMs)) {
      const { value } = item;
      if (value.wait && !value.overdue && !value.held) this.#waits.beOverdue(item, nowMs);
      else value.settle(this.room.endpoints.available.size > 0 ? "pending_timeout" : "none_available");
    }
  }

  /** Dismisses requests that have attempted all remaining endpoints. */
  #dismissHopeless(): void {
    const { endpoints } = this.room;
    if (endpoints.changes === this.#hopelessAt) return;
    this.#hopelessAt = endpoints.changes;
    const isHopeless = ({ request: { tried } }: Waiting<Member>) =>
      tried.size > 0 && noPick(endpoints, tried) === "all_tried";
    for (const { value } of this.#queue.giveUp(isHopeless)) value.settle("all_tried");
  }

  /** Serves requests in the queue's order, as long as an endpoint has room. */
  #serveInOrder(nowMs: number): void {
    const passedOver: { readonly item: Pending<Waiting<Member>>; readonly wait: PrefillWait | undefined }[] = [];
    // A reservation for other tenants applies to all requests of a tenant.
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
          // All later requests of its tenant wait for prefill, too.
          if (result.kind === "prefill" && !look.anyIdle()) aside.add(item.key);
        }
        // This request was tried on every endpoint with room; another may fit.
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

/** Returns whether a search found no usable endpoint, so that only a returning endpoint helps. */
function isOutage(result: Admitted<unknown> | NotAdmitted | NoRoom): boolean {
  return result === "no_endpoints" || result === "none_available";
}
