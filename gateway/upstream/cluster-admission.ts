import type { PriorityClass } from "../../deploy/runtime/queue/class-share.ts";
import { onAbort } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Event } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Holdable, OutageHold } from "./admission/outage-hold.ts";
import { PeerGateways } from "./admission/peer-gateways.ts";
import { PrefillTurns, type PrefillWait } from "./admission/prefill-turns.ts";
import { type PrefillWaiter, PrefillWaits } from "./admission/prefill-waits.ts";
import { ServedTurn } from "./admission/served-turn.ts";
import { SessionAccounts } from "./admission/session-accounts.ts";
import { FIRST_RANK, SessionService } from "./admission/session-service.ts";
import type { Cluster } from "./cluster.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { Balancer } from "./load-balancing/balancer.ts";
import { type NoPick, noPick } from "./load-balancing/choose.ts";
import { isWithinCaps } from "./load-balancing/endpoint-caps.ts";
import { EndpointLevels } from "./load-balancing/endpoint-levels.ts";
import type { EndpointView } from "./load-balancing/endpoint-view.ts";
import type { Placement, PolicyPick } from "./load-balancing/policy.ts";
import type { Route } from "./load-balancing/route.ts";
import type { RoutingHints } from "./load-balancing/routing-hints.ts";
import { CircuitBreaker, type CircuitBreakerState, limitsForSlots, type Permit } from "./queue/circuit-breaker.ts";
import { OUTPUT_RESERVE_TOKENS, type Pending, PendingQueue } from "./queue/pending-queue.ts";
import { type PlaceDemand, TenantPlaces } from "./queue/tenant-places.ts";

/** The time between two looks at whether the time of waiting requests is up, in milliseconds. */
const RECHECK_MS = 100;

/** The number of waiting requests that are sent away in one turn of the event loop: each of them is answered then. */
const SENT_AWAY_PER_TURN = 32;

/** The number of requests that are looked at in one turn of those that wait for their prefill. */
const LOOKED_AT_PER_TURN = 256;

/** The longest time for which an endpoint is believed that it has no room, in milliseconds. */
const MAX_HOLD_BACK_MS = 60_000;

/** A cluster whose endpoints requests are let onto, as far as that needs to know it. */
export type AdmittedCluster<Member = ClusterMember> = Pick<
  Cluster,
  "settings" | "views" | "mayHaveEndpoints" | "announcedMs" | "onMembersChange" | "onHealthChange"
> & {
  /** Returns the member at an address; undefined where the cluster has none there. */
  member(address: string): Member | undefined;
};

/** A request that asks for a place on an endpoint of the cluster. */
export type PlaceRequest = {
  /** The digests of the prompt by which an endpoint is picked. */
  readonly route: Route;
  /** The tenant that the request belongs to: the queue is fair between tenants. */
  readonly tenant: string;
  /** What the queue and the picking of an endpoint may look at. */
  readonly hints: RoutingHints;
  /**
   * The addresses of the endpoints that have had their try at the request. It is emptied when the request is held: what
   * comes back after an outage may do better.
   */
  readonly tried: Set<string>;
  /** The longest time that the request waits for a place on an endpoint that is there, in milliseconds. */
  readonly timeoutMs: number;
  /** Whether the request may be held while no endpoint is there, as its caller is shown signs of life. */
  readonly mayHold: boolean;
  /** The size of the request in bytes, roughly. */
  readonly bytes: number;
  /**
   * Whether the request goes on with an answer that is under way, and has lost its engine: it goes before all that are
   * new, whoever's they are, and no bound of the queue refuses it.
   */
  readonly underWay: boolean;
};

/** A place on an endpoint, held by one try of a request. */
export type Admitted<Member = ClusterMember> = {
  /** The member of the cluster that the place is on. */
  readonly member: Member;
  /**
   * Follows the try for the load-balancing policy, from the admission to the release of the place; undefined when the
   * policy learns nothing from tries.
   */
  readonly placement: Pick<Placement, "see"> | undefined;
  /** Whether the request had waited for its prefill for as long as it may. */
  readonly overdue: boolean;
  /** Gives the place back when the try is over. A second call does nothing. */
  release(): void;
};

/** The reason for which a request gets no place. */
export type NotAdmitted = Exclude<NoPick, "all_full"> | "pending_overflow" | "pending_timeout" | "key_overflow";

/**
 * What an attempt comes to where the request may wait: no endpoint has room, or what there is is kept for other tenants,
 * or it is not the turn of a prompt that needs much prefill.
 */
type NoRoom = "all_full" | "kept_for_others" | PrefillWait;

/** What an attempt needs to know of a request. */
type Attempting = Pick<PlaceRequest, "route" | "tried" | "underWay"> & {
  readonly demand: PlaceDemand;
  /** Monotonic milliseconds at which the request came. */
  readonly sinceMs: number;
  /** Whether the request has waited for its prefill for as long as it may. */
  readonly overdue: boolean;
};

/** A request that begins to wait, and what its first attempt came to. */
type Arriving<Member> = {
  readonly request: PlaceRequest;
  readonly demand: PlaceDemand;
  readonly first: Admitted<Member> | NotAdmitted | NoRoom;
};

type Waiting<Member> = Attempting &
  Holdable &
  PrefillWaiter & {
    readonly request: PlaceRequest;
    readonly settle: (result: Admitted<Member> | NotAdmitted) => void;
  };

/**
 * Lets a cluster's requests onto its endpoints: as many at once as the circuit breaker allows, the others wait in a
 * queue that is bounded and fair between keys. While no endpoint is there, those that may be held wait in the same
 * queue, with bounds of their own, and leave it in the same order.
 */
export class ClusterAdmission<Member = ClusterMember> {
  readonly #cluster: AdmittedCluster<Member>;
  readonly #balancer: Balancer;
  readonly #clock: Clock;
  readonly #breaker = new CircuitBreaker({ maxRequests: 0, maxPendingRequests: 0 });
  readonly #queue: PendingQueue<Waiting<Member>>;
  readonly #places: TenantPlaces;
  readonly #outage: OutageHold<Waiting<Member>>;
  readonly #turns: PrefillTurns;
  readonly #accounts = new SessionAccounts();
  readonly #service = new SessionService(this.#accounts);
  readonly #waits: PrefillWaits<Waiting<Member>>;
  readonly #peers: PeerGateways;
  /** The endpoints, and which of them have room: they are told whenever that may have changed. */
  readonly #levels: EndpointLevels;
  /** The endpoints that have said that they have no room for a while, with what cancels the end of that. */
  readonly #heldBack = new Map<string, () => void>();
  /** What the endpoints' number of changes was when those were last let go for whom there is none any more. */
  #hopelessAt = 0;
  /** Whether there may be room that none of those who wait can take. */
  #hasSpareRoom = false;
  #cancelTimer: (() => void) | undefined;
  #isDueNow = false;

  /** Begins without requests. `random` returns numbers that are even over [0, 1). */
  constructor(cluster: AdmittedCluster<Member>, balancer: Balancer, clock: Clock, random: () => number) {
    this.#cluster = cluster;
    this.#balancer = balancer;
    this.#clock = clock;
    const { circuitBreakers } = cluster.settings;
    const { maxPendingRequestsPerKey: maxPendingPerKey, classShares, adaptiveLifo } = circuitBreakers;
    this.#queue = new PendingQueue({ maxPendingPerKey, classShares, adaptiveLifo });
    this.#places = new TenantPlaces(circuitBreakers.tenantReservePercent);
    this.#outage = new OutageHold({
      settings: circuitBreakers,
      queue: this.#queue,
      mayHaveEndpoints: () => cluster.mayHaveEndpoints,
    });
    const { prefillTurns, workingSetWaitMs } = circuitBreakers;
    this.#waits = new PrefillWaits({ queue: this.#queue, service: this.#service, workingSetWaitMs });
    this.#peers = new PeerGateways({ accounts: this.#accounts, firstDueMs: () => this.#waits.firstDueMs() });
    this.#turns = new PrefillTurns({
      settings: prefillTurns,
      clock,
      random,
      views: cluster.views,
      hasRoom: (view) => this.#hasRoom(view),
      moreUrgent: (nowMs) => this.#peers.moreUrgent(nowMs),
    });
    this.#levels = new EndpointLevels(cluster.settings, {
      hasRoom: (view) => this.#hasRoom(view),
      capOf: (view) => this.#cap(view),
      onRoom: () => this.#serveSoon(),
    });
    cluster.views.follow(this.#levels);
    cluster.onMembersChange(() => {
      for (const address of this.#heldBack.keys()) if (!cluster.member(address)) this.#endHoldBack(address);
      this.#turns.forgetLeft();
      this.#serve();
    });
    cluster.onHealthChange(() => (this.#queue.size > 0 ? this.#serve() : this.#followEndpoints()));
  }

  /** The circuit breaker that counts the cluster's running and waiting requests. */
  get breaker(): CircuitBreaker {
    return this.#breaker;
  }

  /** Returns what the circuit breaker leaves free, by the limits of this moment. */
  breakerState(): CircuitBreakerState {
    this.#followEndpoints();
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

  /** The room of the requests that are held while no endpoint is there, for statistics. */
  get held(): OutageHold<Waiting<Member>>["room"] {
    return this.#outage.room;
  }

  /** What gateways before the same endpoints tell each other, so that all are fair to the same sessions. */
  get peers(): Pick<PeerGateways, "tell" | "hear"> {
    return this.#peers;
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

  /** Keeps requests away from an endpoint that has said that it takes none for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.get(address)?.();
    const cancel = this.#clock.after(Math.min(ms, MAX_HOLD_BACK_MS), () => this.#endHoldBack(address));
    this.#heldBack.set(address, cancel);
    this.#reconsider(address);
  }

  /**
   * Resolves with a place for the request, at once or after its turn in the queue, or with the reason why it gets none.
   * Aborting the signal takes the request out of the queue at once; the result then means nothing.
   */
  acquire(request: PlaceRequest, signal: AbortSignal): Promise<Admitted<Member> | NotAdmitted> {
    const sinceMs = this.#clock.nowMs();
    const demand = this.#places.want(request.tenant, sinceMs);
    this.#followEndpoints();
    // Nobody passes those who wait but where they cannot go; bad news may. Coming makes no room.
    const mayAsk = request.underWay || this.#queue.size === 0 || this.#levels.usable === 0 || this.#hasSpareRoom;
    const first = mayAsk
      ? this.#attempt({ demand, sinceMs, overdue: false, ...request }, this.#waits.count > 0)
      : noPick(this.#levels.levels, request.tried);
    if (!isNoRoom(first) && !(request.mayHold && isOutage(first))) {
      if (typeof first === "string") demand.end();
      return Promise.resolve(first);
    }
    if (first === "kept_for_others" || isWait(first)) this.#hasSpareRoom = true;
    return new Promise((resolve) => this.#wait({ request, demand, first }, signal, resolve));
  }

  /** Sends all waiting requests away and stops the timer. */
  close(): void {
    this.#cancelTimer?.();
    for (const cancel of this.#heldBack.values()) cancel();
    for (const { value } of this.#queue.giveUp(() => true)) value.settle("no_endpoints");
  }

  /** Lets a request wait for its turn, or holds it where no endpoint is there. `resolve` is called once it is over. */
  #wait(
    { request, demand, first }: Arriving<Member>,
    signal: AbortSignal,
    resolve: (result: Admitted<Member> | NotAdmitted) => void,
  ): void {
    const inOutage = this.#outage.sinceMs !== undefined;
    let permit: Permit | undefined;
    let letGo = () => {};
    const settle = (result: Admitted<Member> | NotAdmitted) => {
      const nowMs = this.#clock.nowMs();
      permit?.release();
      item.value.held?.release();
      letGo();
      this.#waits.waitFor(item, undefined, nowMs);
      if (typeof result === "string") {
        demand.end();
        this.#service.want(request.route.session, (nowMs - item.queuedMs) / 1_000, nowMs);
      }
      resolve(result);
    };
    const item = this.#waiting(request, demand, settle);
    if (isWait(first)) this.#waits.waitFor(item, first, item.queuedMs);
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
    permit = this.#breaker.tryPending();
    if (!permit && !request.underWay) {
      leave("pending_overflow");
      return;
    }
    this.#arm(RECHECK_MS);
    letGo = onAbort(signal, () => leave("pending_timeout"));
  }

  #waiting(request: PlaceRequest, demand: PlaceDemand, settle: Waiting<Member>["settle"]): Pending<Waiting<Member>> {
    const { route, tried, tenant, hints, timeoutMs, underWay } = request;
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
      queuedTurns: this.#queue.turns,
      deadlineMs: nowMs + timeoutMs,
      outwaits: underWay,
      rank: FIRST_RANK,
      value: {
        request,
        route,
        tried,
        underWay,
        demand,
        sinceMs: nowMs,
        settle,
        held: undefined,
        holdUntilMs: undefined,
        wait: undefined,
        overdue: false,
      },
    };
  }

  /** Tries to find a place. `isLast` says that others wait for their prefill, behind whom this request comes with its own. */
  #attempt(asking: Attempting, isLast = false): Admitted<Member> | NotAdmitted | NoRoom {
    const { route, tried, underWay, demand } = asking;
    const levels = this.#levels;
    const mayTake = underWay || demand.mayTake(this.#breaker.maxRequests, this.#clock.nowMs());
    if (levels.usable > 0 && !mayTake) return "kept_for_others";
    const choice = this.#breaker.isFull
      ? { none: noPick(levels.levels, tried) }
      : this.#balancer.pick(levels, route, tried);
    if ("none" in choice) return choice.none;
    return this.#turnOf(asking, choice.pick, isLast) ?? this.#take(asking, choice.pick);
  }

  /** Returns what a request has to wait for before it goes where the policy picked; undefined where it may go now. */
  #turnOf({ route, tried, underWay, overdue }: Attempting, pick: PolicyPick, isLast: boolean): PrefillWait | undefined {
    if (underWay || this.#cluster.settings.circuitBreakers.workingSetWaitMs === 0) return undefined;
    return this.#turns.waitFor(pick, {
      tokens: this.#balancer.expectedTokens(route),
      isLast,
      overdue,
      pickAnywhere: () => {
        const anywhere = this.#balancer.pickAnywhere(this.#levels, route, tried);
        return "pick" in anywhere ? anywhere.pick : undefined;
      },
    });
  }

  /** Takes a place for a request where the policy picked. */
  #take(
    { demand, route, sinceMs, overdue }: Attempting,
    { endpoint, placement, uncachedTokens = 0 }: PolicyPick,
  ): Admitted<Member> | NoRoom {
    const { address, prefillTokensPerSecond, outstandingPrefillTokens } = endpoint;
    const member = this.#cluster.member(address);
    const permit = this.#breaker.tryRequest(address, this.#cap(endpoint));
    if (!member || !permit) return "all_full";
    const aheadMs = (1_000 * outstandingPrefillTokens) / prefillTokensPerSecond;
    const prefillMs = (1_000 * uncachedTokens) / prefillTokensPerSecond;
    const beganMs = this.#clock.nowMs();
    const { session } = route;
    const turn = new ServedTurn({ service: this.#service, session, aheadMs, prefillMs, sinceMs, beganMs });
    this.#reconsider(address);
    demand.take();
    // At once: whoever is let in behind this request in the same turn is to know of its work.
    placement?.begin();
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      placement?.end();
      turn.end(this.#clock.nowMs());
      demand.end();
      this.#queue.ended(this.#breaker.active);
      permit.release();
      this.#reconsider(address);
      this.#serve();
    };
    const see = (events: readonly Event[]) => {
      placement?.see(events);
      turn.see(events);
    };
    return { member, placement: placement && { see }, overdue, release };
  }

  #cap({ slots }: EndpointView): number {
    return this.#cluster.settings.circuitBreakers.maxRequestsPerEndpoint ?? slots;
  }

  /** Returns whether an endpoint has room for one more request, whatever the cluster has. */
  #hasRoom(view: EndpointView): boolean {
    const { address } = view;
    if (this.#heldBack.has(address) || this.#breaker.requestsOn(address) >= this.#cap(view)) return false;
    return isWithinCaps(view, this.#cluster.settings.circuitBreakers.endpointCaps);
  }

  /** Finds out again whether an endpoint has room, where it still is one of the cluster's. */
  #reconsider(address: string): void {
    const view = this.#cluster.views.get(address);
    if (view) this.#levels.reconsider(view);
  }

  #endHoldBack(address: string): void {
    this.#heldBack.get(address)?.();
    if (this.#heldBack.delete(address)) this.#reconsider(address);
  }

  /** Lets the limits follow the endpoints as they come and go. */
  #followEndpoints(): void {
    const { maxRequests, maxPendingRequests, maxHeldRequests } = this.#cluster.settings.circuitBreakers;
    const { usable, places } = this.#levels;
    const bySlots = limitsForSlots(places);
    const maxWaiting = usable > 0 ? (maxPendingRequests ?? bySlots.maxPendingRequests) : maxHeldRequests;
    this.#breaker.setLimits({ maxRequests: maxRequests ?? bySlots.maxRequests, maxPendingRequests: maxWaiting });
    this.#queue.setMaxPending(maxWaiting);
    this.#outage.note(usable, this.#clock.nowMs());
  }

  /** Gives free places to those who wait, and lets those go for whom there will be none in time. */
  #serve(): void {
    if (this.#queue.size === 0) return;
    this.#followEndpoints();
    const nowMs = this.#clock.nowMs();
    const hasMore = this.#dismissLate(nowMs);
    if (this.#levels.usable > 0) {
      this.#dismissHopeless();
      this.#serveInOrder(nowMs);
    }
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#isDueNow = false;
    this.#arm(hasMore ? 0 : RECHECK_MS);
  }

  /** Sees to it that those who wait are served next, as there is room now. */
  #serveSoon(): void {
    if (this.#isDueNow || this.#queue.size === 0) return;
    this.#isDueNow = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#arm(0);
  }

  /** Sees to it that those who wait are looked at in `ms` milliseconds, unless a look is due anyway. */
  #arm(ms: number): void {
    if (this.#queue.size === 0) return;
    this.#cancelTimer ??= this.#clock.after(ms, () => {
      this.#cancelTimer = undefined;
      this.#isDueNow = false;
      this.#serve();
    });
  }

  /** Lets those go whose time is up, of many only some in this turn. Returns whether there may be more. */
  #dismissLate(nowMs: number): boolean {
    const late = this.#queue.expire(nowMs, SENT_AWAY_PER_TURN);
    for (const item of late) {
      const { value } = item;
      if (value.wait && !value.overdue && !value.held) this.#waits.beOverdue(item, nowMs);
      else value.settle(this.#levels.usable > 0 ? "pending_timeout" : "none_available");
    }
    return late.length === SENT_AWAY_PER_TURN;
  }

  /** Lets those go that wait for an endpoint which is no more: all others have had their try. */
  #dismissHopeless(): void {
    const { changes, levels } = this.#levels;
    if (changes === this.#hopelessAt) return;
    this.#hopelessAt = changes;
    const isHopeless = ({ tried }: Waiting<Member>) => tried.size > 0 && noPick(levels, tried) === "all_tried";
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
    while (this.#hasRoomAnywhere() && this.#queue.size > 0 && looks < LOOKED_AT_PER_TURN) {
      const item = this.#queue.next(aside);
      if (!item) break;
      const { value } = item;
      const { wait } = value;
      const result = wait && !look.isOver(wait) ? wait : this.#attempt(value);
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
        if (triedAll >= this.#levels.usable) break;
        continue;
      }
      this.#queue.served(item, nowMs);
      item.value.settle(result);
    }
    this.#queue.putBack(passedOver.map(({ item }) => item));
    for (const { item, wait } of passedOver) this.#waits.waitFor(item, wait, nowMs);
    this.#hasSpareRoom = this.#hasRoomAnywhere();
  }

  #hasRoomAnywhere(): boolean {
    return !this.#breaker.isFull && this.#levels.hasRoom;
  }
}

/** Returns whether an attempt found no endpoint at all, so that only an endpoint that comes back helps. */
function isOutage(result: Admitted<unknown> | NotAdmitted | NoRoom): boolean {
  return result === "no_endpoints" || result === "none_available";
}

function isNoRoom(result: Admitted<unknown> | NotAdmitted | NoRoom): result is NoRoom {
  return result === "all_full" || result === "kept_for_others" || isWait(result);
}

function isWait(result: Admitted<unknown> | NotAdmitted | NoRoom): result is PrefillWait {
  return typeof result === "object" && "kind" in result;
}
