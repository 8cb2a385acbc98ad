import type { PriorityClass } from "../../../deploy/runtime/queue/fair-queue.ts";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { lackOf } from "../../overload/byte-budget.ts";
import { promptBytes } from "../load-balancing/boundary-hashes.ts";
import { type Candidates, EndpointList, type EndpointSet, type NoPick } from "../load-balancing/endpoint-set.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { Policy, PolicyPick } from "../load-balancing/policy.ts";
import { PendingQueue } from "./pending-queue.ts";
import { PrefillThrottle, type ThrottlePass, type ThrottleWait } from "./prefill-throttle.ts";
import {
  type Admitted,
  type CircuitBreakerState,
  MAX_PENDING_OF_KEY,
  MAX_PENDING_REQUESTS,
  type NotAdmitted,
  PENDING_PER_SLOT,
  type Result,
  type RoutedRequest,
  type SlotRequest,
  type Waiting,
} from "./slot-request.ts";
import { TenantCaps } from "./tenant-caps.ts";

/** The most bytes of all held requests' bodies in a cluster. */
export const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** The time after which a wait for prefill is overdue, in milliseconds. */
export const PREFILL_WAIT_MS = 240_000;
/**
 * The delay of a request among those of its tenant that wait for prefill, in multiples of its own prefill time: short
 * ones must not wait long behind long ones.
 */
const OWN_PREFILL_WEIGHT = 8;
/** The tokens that every request costs in the queue for its answer, in addition to its prompt's tokens. */
const OUTPUT_RESERVE_TOKENS = 1_024;
/** The tokens per byte of prompt where the policy has measured none: typical of English text and code. */
const TOKENS_PER_BYTE = 0.25;
/** The interval between two passes over the waiting requests, in milliseconds. */
const PASS_MS = 100;
/** The number of requests in one pass that are found to wait for a full endpoint or for prefill. */
const MAX_WAITS_PER_PASS = 256;

/** What admission needs of a cluster. */
export type AdmittedCluster<Member> = {
  readonly settings: {
    readonly circuitBreakers: {
      readonly maxPendingRequests?: number | undefined;
    };
  };
  readonly endpointSet: EndpointSet;
  readonly mayHaveEndpoints: boolean;
  /** Monotonic milliseconds at which an endpoint last announced itself; -Infinity without any. */
  readonly announcedMs: number;
  onMembersChange(listener: () => void): void;
  onHealthChange(listener: () => void): void;
  /** Returns the member at an address; undefined where the cluster has none there. */
  member(address: string): Member | undefined;
};

const ANY_SLOT = { kind: "slot" } as const;

/**
 * Admits a cluster's requests to its endpoints. A request without a slot waits in the one queue of the cluster, which
 * is bounded and fair between tenants, with one deadline and one state: it waits for an endpoint (held in an outage),
 * for a slot, or for prefill. Every freed slot and every change of the endpoints begins a pass over the queue in its
 * order, as does a timer while requests wait.
 */
export class AdmissionController<Member> {
  readonly #cluster: AdmittedCluster<Member>;
  readonly #policy: Policy;
  readonly #clock: Clock;
  readonly #endpoints: EndpointSet;
  readonly #throttle: PrefillThrottle;
  readonly #queue = new PendingQueue<Waiting<Member>>();
  readonly #tenants = new TenantCaps();
  #pendingOverflows = 0;
  /** The monotonic milliseconds at which the last usable endpoint was lost; undefined while one is usable. */
  #outageSinceMs: number | undefined;
  /** Whether there may be capacity that no waiting request can take. */
  #hasSpareCapacity = false;
  #timer: { readonly dueMs: number; readonly cancel: () => void } | undefined;

  /** `random` returns numbers uniform over [0, 1). */
  constructor(cluster: AdmittedCluster<Member>, policy: Policy, clock: Clock, random: () => number) {
    this.#cluster = cluster;
    this.#policy = policy;
    this.#clock = clock;
    this.#endpoints = cluster.endpointSet;
    this.#throttle = new PrefillThrottle({ endpoints: cluster.endpointSet, clock, random });
    cluster.endpointSet.onLeave((address) => policy.forget?.(address));
    cluster.endpointSet.onCapacity(() => {
      if (this.#queue.size > 0) this.#passIn(0);
    });
    cluster.onMembersChange(() => this.#pass());
    cluster.onHealthChange(() => this.#pass());
  }

  /** The number of requests that wait. */
  get pending(): number {
    return this.#queue.size;
  }

  pendingOf(priorityClass: PriorityClass): number {
    return this.#queue.sizeOf(priorityClass);
  }

  /** The number of running and waiting requests. */
  get active(): number {
    return this.#endpoints.running + this.#queue.size;
  }

  /** The number of requests held in an outage, and the bytes of their bodies. */
  get held(): { readonly requests: number; readonly bytes: number } {
    return sizeOf(this.#queue.items().filter(isHeld));
  }

  breakerState(): CircuitBreakerState {
    const remainingRequests = Math.max(0, this.#endpoints.capacity - this.#endpoints.running);
    const remainingPending = Math.max(0, this.#maxPending - this.#queue.size);
    return {
      remainingRequests,
      remainingPending,
      requestsOpen: remainingRequests === 0,
      pendingOpen: remainingPending === 0,
      pendingOverflows: this.#pendingOverflows,
    };
  }

  /**
   * Returns the duration of the outage in milliseconds; undefined while an endpoint is usable. It restarts when an
   * endpoint announces itself that is not usable yet.
   */
  outageMs(): number | undefined {
    if (this.#outageSinceMs === undefined) return undefined;
    return this.#clock.nowMs() - Math.max(this.#outageSinceMs, this.#cluster.announcedMs);
  }

  /** Returns the expected wait of a request that arrives now, in milliseconds; undefined without an estimate. */
  drainMs(): number | undefined {
    return this.#queue.drainMs(this.#clock.nowMs());
  }

  /** Keeps requests from an endpoint that announced to refuse them for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#endpoints.holdBack(address, ms);
  }

  /**
   * Resolves with a slot for the request, at once or after a wait in the queue, or with the reason why it gets none.
   * Aborting the signal removes the request from the queue at once; the result is then meaningless.
   */
  acquire(request: SlotRequest<Member>, signal: AbortSignal): Promise<Result<Member>> {
    const nowMs = this.#clock.nowMs();
    this.#followOutage(nowMs);
    const item = this.#waiting(request, nowMs);
    const found = this.#tryAtOnce(item, nowMs);
    const isRefused = typeof found === "string" && !(request.holdMs > 0 && isOutage(found));
    if (isRefused) item.tenant.waiting -= 1;
    if (isRefused || (typeof found === "object" && "member" in found)) return Promise.resolve(found);
    return new Promise((resolve) => {
      if (typeof found === "object") this.#waitFor(item, found, nowMs);
      this.#enqueue(item, signal, resolve, nowMs);
    });
  }

  /**
   * Takes a slot for a request now, on the policy's pick among the endpoints with capacity that `fits`, where it `pays`. It
   * passes the queue, and none waits.
   */
  takeAtOnce(
    { route, tenant: name }: RoutedRequest,
    { fits, pays }: { fits(endpoint: EndpointView): boolean; pays(pick: PolicyPick): boolean },
  ): Admitted<Member> | undefined {
    const nowMs = this.#clock.nowMs();
    const fitting = this.#endpoints.withCapacity.all.filter(fits);
    const pick = fitting.length > 0 ? this.#policy.pick(new EndpointList(fitting), route, nowMs) : undefined;
    if (!pick || !pays(pick)) return undefined;
    const tenant = this.#tenants.enter(name, nowMs);
    const taken = this.#take({ tenant }, pick, false);
    if (typeof taken === "object") return taken;
    tenant.waiting -= 1;
    return undefined;
  }

  /** Refuses all waiting requests and stops all timers. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const item of this.#queue.items()) this.#leave(item, "no_endpoints");
  }

  get #maxPending(): number {
    const { available, capacity } = this.#endpoints;
    if (available.all.length === 0) return MAX_PENDING_REQUESTS;
    const { maxPendingRequests } = this.#cluster.settings.circuitBreakers;
    return maxPendingRequests ?? Math.min(PENDING_PER_SLOT * capacity, MAX_PENDING_REQUESTS);
  }

  #waiting(request: SlotRequest<Member>, nowMs: number): Waiting<Member> {
    const { route, tenant, hints, timeoutMs, underWay } = request;
    const promptTokens = this.#policy.expectedTokens?.(route) ?? promptBytes(route.shape) * TOKENS_PER_BYTE;
    // In an outage, the tenant's share limits the requests of a key without a limit of its own.
    const maxOfKeys = this.#outageSinceMs === undefined ? MAX_PENDING_OF_KEY : Number.POSITIVE_INFINITY;
    return {
      key: tenant,
      keyId: hints.keyId,
      maxPendingPerKey: hints.maxPendingRequests ?? maxOfKeys,
      underWay,
      priorityClass: hints.priorityClass,
      weight: hints.weight,
      promptTokens,
      cost: promptTokens + OUTPUT_RESERVE_TOKENS,
      rank: 0,
      deadlineMs: nowMs + timeoutMs,
      request,
      tenant: this.#tenants.enter(tenant, nowMs),
      queuedMs: nowMs,
      waitingFor: ANY_SLOT,
      overdueMs: Number.POSITIVE_INFINITY,
      holdUntilMs: undefined,
      settle: () => {},
    };
  }

  /** Finds a slot for a request that arrives now; it passes waiting ones only where those cannot go. */
  #tryAtOnce(item: Waiting<Member>, nowMs: number): Result<Member> | ThrottleWait | undefined {
    const endpoints = this.#endpoints;
    const { tenant, underWay } = item;
    const isOut = endpoints.available.all.length === 0;
    const isAtCap = !isOut && !underWay && this.#tenants.isAtCap(tenant, endpoints.capacity, nowMs);
    const mayPass = underWay || this.#queue.size === 0 || this.#hasSpareCapacity;
    const found = mayPass && !isAtCap ? this.#find(item, nowMs, true) : endpoints.noPick(item.request.tried);
    if (isAtCap || (typeof found === "object" && "kind" in found)) this.#hasSpareCapacity = true;
    return found === "all_full" ? undefined : found;
  }

  /** Takes a slot for a request where one suits it; otherwise returns why not. It never waits. */
  #find(item: Waiting<Member>, nowMs: number, isNew = false): Admitted<Member> | NoPick | ThrottleWait {
    const endpoints = this.#endpoints;
    const { request, promptTokens: tokens } = item;
    const pick = this.#pick(endpoints.withCapacity, request, nowMs);
    if (!pick) return endpoints.noPick(request.tried);
    const overdue = nowMs >= item.overdueMs;
    const reader = request.readers?.take(pick, request);
    const wait =
      !reader &&
      !request.underWay &&
      this.#throttle.waitFor(pick, {
        tokens,
        isLast: () => isNew && this.#queue.items().some(({ waitingFor }) => waitingFor.kind === "prefill"),
        overdue,
        pickAnywhere: () => this.#pick(endpoints.available, request, nowMs),
      });
    if (wait) return wait;
    const taken = this.#take(item, pick, overdue);
    return reader ? readBy(reader, taken) : taken;
  }

  /** Returns the policy's pick among the candidates that the request has not tried; undefined where it has none. */
  #pick(candidates: Candidates, { route, tried }: SlotRequest<Member>, nowMs: number): PolicyPick | undefined {
    const untried = tried.size === 0 ? candidates : without(candidates, tried);
    return untried.all.length > 0 ? this.#policy.pick(untried, route, nowMs) : undefined;
  }

  #take(
    { tenant }: Pick<Waiting<Member>, "tenant">,
    { endpoint, observer }: PolicyPick,
    overdue: boolean,
  ): Admitted<Member> | "all_full" {
    const member = this.#cluster.member(endpoint.address);
    // A slot on an endpoint that has left meanwhile would never be released.
    if (!member) return "all_full";
    this.#endpoints.count(endpoint.address, 1);
    tenant.waiting -= 1;
    tenant.running += 1;
    // Synchronously: requests admitted after this one in the same tick must see its work.
    observer?.begin();
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      observer?.end();
      tenant.running -= 1;
      this.#endpoints.count(endpoint.address, -1);
      this.#pass();
    };
    return { member, observer, overdue, release };
  }

  /** Queues a request, or holds it in an outage. `resolve` is called once with the result. */
  #enqueue(item: Waiting<Member>, signal: AbortSignal, resolve: (result: Result<Member>) => void, nowMs: number): void {
    const inOutage = this.#outageSinceMs !== undefined;
    let stopListening = () => {};
    item.settle = (result) => {
      stopListening();
      if (typeof result === "string") item.tenant.waiting -= 1;
      resolve(result);
    };
    this.#dismissLate(nowMs);
    const refusal = inOutage && !this.#hold(item, nowMs) ? "none_available" : this.#push(item, inOutage);
    if (refusal) {
      item.settle(refusal);
      return;
    }
    this.#passIn(PASS_MS);
    stopListening = onAbort(signal, () => this.#leave(item, "pending_timeout"));
  }

  /** Adds a request to the queue; returns the reason where a limit refuses it. */
  #push(item: Waiting<Member>, inOutage: boolean): NotAdmitted | undefined {
    const pushed = this.#queue.push(item, this.#maxPending);
    if ("dropped" in pushed) {
      pushed.dropped?.settle("pending_overflow");
      return undefined;
    }
    if (pushed.limit === "key") return inOutage ? "none_available" : "key_overflow";
    this.#pendingOverflows += 1;
    return "pending_overflow";
  }

  #leave(item: Waiting<Member>, why: NotAdmitted): void {
    this.#queue.remove(item);
    item.settle(why);
  }

  /** Sets the state of a waiting request; the first wait at the throttle extends its deadline. */
  #waitFor(item: Waiting<Member>, wait: ThrottleWait, nowMs: number): void {
    const { waitingFor: before, request, queuedMs } = item;
    item.waitingFor = wait;
    if ("address" in before && before.kind === wait.kind) return;
    const { keepsAlive, timeoutMs } = request;
    // A caller without keep-alives does not wait that long.
    const waitMs = keepsAlive ? PREFILL_WAIT_MS : Math.min(PREFILL_WAIT_MS, timeoutMs / 2);
    if (item.overdueMs === Number.POSITIVE_INFINITY) {
      item.overdueMs = nowMs + waitMs;
      const leastMs = keepsAlive ? Math.max(timeoutMs, PREFILL_WAIT_MS) : timeoutMs / 2;
      item.deadlineMs = Math.max(item.deadlineMs, item.overdueMs + leastMs);
    }
    const dueMs = queuedMs + Math.min(waitMs, OWN_PREFILL_WEIGHT * wait.seconds * 1_000);
    this.#queue.rerank(item, wait.kind === "slot" ? 0 : -1 - dueMs);
  }

  /** Begins or ends an outage by the usable endpoints: waiting requests are held, or wait for a slot again. */
  #followOutage(nowMs: number): void {
    const isOutage = this.#endpoints.available.all.length === 0;
    if (isOutage === (this.#outageSinceMs !== undefined)) return;
    this.#outageSinceMs = isOutage ? nowMs : undefined;
    for (const item of this.#queue.order()) {
      // A request without capacity, or that may not be held, keeps its deadline.
      if (isOutage) this.#hold(item, nowMs);
      else if (isHeld(item)) {
        item.waitingFor = ANY_SLOT;
        // The backlog of an outage takes long to serve.
        item.deadlineMs = nowMs + Math.max(item.request.holdMs, item.request.timeoutMs);
      }
    }
  }

  /** Holds a request during the outage. Returns false where it may not be held, or there is no capacity. */
  #hold(item: Waiting<Member>, nowMs: number): boolean {
    const holdUntilMs = item.holdUntilMs ?? nowMs + item.request.holdMs;
    if (!this.#cluster.mayHaveEndpoints || holdUntilMs <= nowMs) return false;
    const held = this.#queue.items().filter(isHeld);
    const [all, own] = [sizeOf(held), sizeOf(held.filter(({ tenant }) => tenant === item.tenant))];
    const lack =
      lackOf(1, own.requests, all.requests, MAX_PENDING_REQUESTS) ??
      lackOf(item.request.bytes, own.bytes, all.bytes, MAX_HELD_BYTES);
    if (lack) return false;
    item.waitingFor = { kind: "endpoint" };
    item.holdUntilMs = holdUntilMs;
    item.deadlineMs = holdUntilMs;
    // An endpoint that returns after an outage may succeed where it failed before.
    item.request = { ...item.request, tried: new Set() };
    return true;
  }

  /** Assigns free slots to waiting requests, and dismisses those that get none in time. */
  #pass(): void {
    const nowMs = this.#clock.nowMs();
    this.#followOutage(nowMs);
    if (this.#queue.size === 0) return;
    this.#dismissLate(nowMs);
    if (this.#outageSinceMs === undefined) {
      this.#dismissHopeless();
      this.#serveInOrder(nowMs);
    }
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#queue.size > 0) this.#passIn(PASS_MS);
  }

  /** Schedules the next pass in `ms` milliseconds, unless an earlier one is scheduled. */
  #passIn(ms: number): void {
    const dueMs = this.#clock.nowMs() + ms;
    if (this.#timer && this.#timer.dueMs <= dueMs) return;
    this.#timer?.cancel();
    const cancel = this.#clock.after(ms, () => {
      this.#timer = undefined;
      this.#pass();
    });
    this.#timer = { dueMs, cancel };
  }

  #dismissLate(nowMs: number): void {
    const why = this.#outageSinceMs === undefined ? "pending_timeout" : "none_available";
    for (const item of this.#queue.items()) if (item.deadlineMs <= nowMs) this.#leave(item, why);
  }

  /** Dismisses requests that have tried all remaining endpoints. */
  #dismissHopeless(): void {
    const endpoints = this.#endpoints;
    for (const item of this.#queue.items()) {
      const { tried } = item.request;
      if (tried.size > 0 && endpoints.noPick(tried) === "all_tried") this.#leave(item, "all_tried");
    }
  }

  /** Serves requests in the queue's order, as long as an endpoint has capacity. */
  #serveInOrder(nowMs: number): void {
    const endpoints = this.#endpoints;
    const aside = new Set<string>();
    const pass = this.#throttle.pass();
    const waits: (readonly [Waiting<Member>, ThrottleWait])[] = [];
    let triedAll = 0;
    for (const item of this.#queue.order(aside)) {
      const { withCapacity, available } = endpoints;
      if (withCapacity.all.length === 0 || triedAll >= available.all.length || waits.length >= MAX_WAITS_PER_PASS)
        break;
      if (!item.underWay && this.#tenants.isAtCap(item.tenant, endpoints.capacity, nowMs)) {
        aside.add(item.key);
        continue;
      }
      const found = this.#throttled(item, pass, nowMs) ?? this.#find(item, nowMs);
      if (found === "all_full") {
        // This request was tried on every endpoint with capacity; another may fit.
        triedAll += 1;
      } else if (typeof found === "string") {
        this.#leave(item, found);
      } else if ("kind" in found) {
        waits.push([item, found]);
        // All later requests of its tenant wait for prefill, too.
        if (found.kind === "prefill" && !pass.anyIdle()) aside.add(item.key);
      } else {
        this.#queue.take(item, nowMs);
        item.settle(found);
      }
    }
    for (const [item, wait] of waits) this.#waitFor(item, wait, nowMs);
    this.#hasSpareCapacity = endpoints.withCapacity.all.length > 0;
  }

  /** Returns the wait of a request at the throttle; undefined where it has none, or it may be over. */
  #throttled(item: Waiting<Member>, pass: ThrottlePass, nowMs: number): ThrottleWait | undefined {
    const { waitingFor, request } = item;
    if (!("address" in waitingFor) || request.readers?.mayRead) return undefined;
    const wait = nowMs >= item.overdueMs ? { ...waitingFor, address: undefined } : waitingFor;
    return pass.isOver(wait) ? undefined : wait;
  }
}

function without(candidates: Candidates, addresses: ReadonlySet<string>): Candidates {
  return {
    all: candidates.all.filter(({ address }) => !addresses.has(address)),
    get: (address) => (addresses.has(address) ? undefined : candidates.get(address)),
  };
}

/** Returns a slot with that of the endpoint that reads the prompt for it; frees the latter where there is none. */
function readBy<Member>(reader: Admitted<Member>, taken: Admitted<Member> | "all_full"): Admitted<Member> | "all_full" {
  if (taken === "all_full") {
    reader.release();
    return taken;
  }
  taken.observer?.readElsewhere?.(true);
  const release = () => {
    reader.release();
    taken.release();
  };
  return { ...taken, reader, release };
}

function isHeld({ waitingFor }: Pick<Waiting<unknown>, "waitingFor">): boolean {
  return waitingFor.kind === "endpoint";
}

/** Returns whether only a returning endpoint helps. */
function isOutage(result: NotAdmitted): boolean {
  return result === "no_endpoints" || result === "none_available";
}

type Sized = { readonly request: { readonly bytes: number } };

function sizeOf(items: readonly Sized[]): { readonly requests: number; readonly bytes: number } {
  return { requests: items.length, bytes: items.reduce((sum, { request }) => sum + request.bytes, 0) };
}
