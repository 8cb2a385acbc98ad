import type { NoPick } from "../load-balancing/endpoint-set.ts";
import type { PickObserver, PolicyPick } from "../load-balancing/policy.ts";
import type { Route, RoutingHints } from "../load-balancing/route.ts";
import type { Queued } from "./pending-queue.ts";
import type { ThrottleWait } from "./prefill-throttle.ts";
import type { Tenant } from "./tenant-caps.ts";

export const PENDING_PER_SLOT = 4;
/** The most pending requests, regardless of slots: one process cannot hold more. */
export const MAX_PENDING_REQUESTS = 512;
/** The most pending requests of a key whose record has no number of its own. */
export const MAX_PENDING_OF_KEY = 32;

export type RoutedRequest = {
  /** The digests of the prompt by which an endpoint is picked. */
  readonly route: Route;
  readonly tenant: string;
};

export type SlotRequest<Member> = RoutedRequest & {
  readonly hints: RoutingHints;
  /** The addresses that must not receive the request. Cleared when the request is held in an outage. */
  readonly tried: ReadonlySet<string>;
  /** The longest wait for a slot of a present endpoint, in milliseconds. */
  readonly timeoutMs: number;
  /** The longest time for which the request is held in an outage, in milliseconds; 0 refuses it at once. */
  readonly holdMs: number;
  /** Whether its caller receives keep-alives while it waits; others wait less long for prefill. */
  readonly keepsAlive: boolean;
  readonly bytes: number;
  /**
   * Whether the request continues an answer whose engine was lost: it precedes all new requests of all tenants, and no
   * queue limit refuses it.
   */
  readonly underWay: boolean;
  /** The endpoints that may read the prompt for the one that answers. Default: none. */
  readonly readers?: PromptReaders<Member> | undefined;
};

/** Endpoints that read prompts for others. */
export type PromptReaders<Member> = {
  /** Whether one of them can begin with a prompt now. */
  readonly mayRead: boolean;
  /** Takes a slot for the prompt of a request that would be answered at `pick`; undefined where that one reads it. */
  take(pick: PolicyPick, request: RoutedRequest): Admitted<Member> | undefined;
};

/** A slot on an endpoint, held by one attempt of a request. */
export type Admitted<Member> = {
  readonly member: Member;
  /** Follows the attempt for the load-balancing policy; undefined when the policy learns nothing from attempts. */
  readonly observer: Pick<PickObserver, "see" | "heldUpTo" | "readElsewhere"> | undefined;
  /** A slot on the endpoint that is to read the prompt for this one, which `release` frees as well. Default: none. */
  readonly reader?: Admitted<Member>;
  /** Whether the request's wait for prefill had reached its limit. */
  readonly overdue: boolean;
  /** Frees the slot at the end of the attempt. Idempotent. */
  release(): void;
};

/** The reason why a request gets no slot. */
export type NotAdmitted = Exclude<NoPick, "all_full"> | "pending_overflow" | "pending_timeout" | "key_overflow";

/** The remaining capacity of a cluster, as Envoy's `remaining_*` and `*_open`. */
export type CircuitBreakerState = {
  readonly remainingRequests: number;
  readonly remainingPending: number;
  readonly requestsOpen: boolean;
  readonly pendingOpen: boolean;
  /** The number of requests refused a wait since the start. */
  readonly pendingOverflows: number;
};

/** What a request waits for: any endpoint in an outage, a slot (of one endpoint or of any), or an idle endpoint. */
export type WaitingFor = { readonly kind: "endpoint" } | { readonly kind: "slot" } | ThrottleWait;

export type Result<Member> = Admitted<Member> | NotAdmitted;

export type Waiting<Member> = Queued & {
  request: SlotRequest<Member>;
  readonly tenant: Tenant;
  readonly promptTokens: number;
  readonly queuedMs: number;
  waitingFor: WaitingFor;
  /** The monotonic milliseconds at which its wait for prefill is overdue; infinite before the first such wait. */
  overdueMs: number;
  /** The monotonic milliseconds at which its hold ends at the latest; undefined for a request never held. */
  holdUntilMs: number | undefined;
  /** Resolves the request's promise; called once. */
  settle: (result: Result<Member>) => void;
};
