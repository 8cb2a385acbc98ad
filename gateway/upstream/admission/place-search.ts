import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Balancer } from "../load-balancing/balancer.ts";
import { type NoPick, noPick } from "../load-balancing/choose.ts";
import type { Placement, PolicyPick } from "../load-balancing/policy.ts";
import type { Route } from "../load-balancing/route.ts";
import type { RoutingHints } from "../load-balancing/routing-hints.ts";
import type { PlaceDemand } from "../queue/tenant-places.ts";
import type { EndpointRoom } from "./endpoint-room.ts";
import type { PrefillTurns, PrefillWait } from "./prefill-turns.ts";

/** A request that asks for a place on an endpoint of the cluster. */
export type PlaceRequest = {
  /** The digests of the prompt by which an endpoint is picked. */
  readonly route: Route;
  /** The tenant that the request belongs to: the queue is fair between tenants. */
  readonly tenant: string;
  readonly hints: RoutingHints;
  /** The addresses that must not receive the request. Cleared when the request is held in an outage. */
  readonly tried: ReadonlySet<string>;
  /** The longest wait for a place on a present endpoint, in milliseconds. */
  readonly timeoutMs: number;
  /** Whether the request may be held in an outage, as its caller receives keep-alives. */
  readonly mayHold: boolean;
  /** The approximate size of the request in bytes. */
  readonly bytes: number;
  /**
   * Whether the request continues an answer whose engine was lost: it precedes all new requests of all tenants, and no
   * queue limit refuses it.
   */
  readonly underWay: boolean;
};

/** A request that searches for a place, on arrival or after a wait. */
export type Seeker = {
  readonly request: PlaceRequest;
  /** Decides whether the request's tenant may have one more place. */
  readonly demand: PlaceDemand;
  /** Whether the request's wait for prefill has reached its limit. */
  readonly overdue: boolean;
};

/** A place on an endpoint, held by one attempt of a request. */
export type Admitted<Member> = {
  /** The member of the cluster that the place is on. */
  readonly member: Member;
  /**
   * Follows the attempt for the load-balancing policy, from admission to release; undefined when the policy learns
   * nothing from attempts.
   */
  readonly placement: Pick<Placement, "see" | "explain"> | undefined;
  /** Whether the request's wait for prefill had reached its limit. */
  readonly overdue: boolean;
  /** Returns the place at the end of the attempt. Idempotent. */
  release(): void;
};

/** The reason why a request gets no place. */
export type NotAdmitted = Exclude<NoPick, "all_full"> | "pending_overflow" | "pending_timeout" | "key_overflow";

/**
 * The reason for a wait: no endpoint has room, the room is reserved for other tenants, or the prompt needs much prefill
 * and is not next.
 */
export type NoRoom = "all_full" | "kept_for_others" | PrefillWait;

export type PlaceSearchParts<Member> = {
  /** Returns the member of the cluster at an address; undefined where there is none. */
  readonly member: (address: string) => Member | undefined;
  /** Picks the most suitable endpoint for a request. */
  readonly balancer: Balancer;
  /** Decides which endpoints have room, and counts the running requests. */
  readonly room: EndpointRoom;
  /** Orders the prompts that need much prefill; undefined where none waits for prefill. */
  readonly turns: PrefillTurns | undefined;
  /** The clock of the turns. */
  readonly clock: Pick<Clock, "nowMs">;
  /** Called after a place was released. */
  readonly onRelease: () => void;
};

/** Finds places on the endpoints of a cluster in their current state; a search never waits. */
export class PlaceSearch<Member> {
  readonly #parts: PlaceSearchParts<Member>;

  constructor(parts: PlaceSearchParts<Member>) {
    this.#parts = parts;
  }

  /**
   * Takes a place for a request, or returns why there is none. `isLast` says that other requests wait for prefill, and
   * that this one comes after them.
   */
  find(seeker: Seeker, isLast = false): Admitted<Member> | NotAdmitted | NoRoom {
    const { balancer, room, clock } = this.#parts;
    const { breaker, endpoints } = room;
    const { route, tried, underWay } = seeker.request;
    const mayTake = underWay || seeker.demand.mayTake(breaker.maxRequests, clock.nowMs());
    if (endpoints.available.size > 0 && !mayTake) return "kept_for_others";
    const choice = breaker.isFull ? { none: noPick(endpoints, tried) } : balancer.pick(endpoints, route, tried);
    if ("none" in choice) return choice.none;
    return this.#turnOf(seeker, choice.pick, isLast) ?? this.#take(seeker, choice.pick);
  }

  /** Returns the wait of a request before it goes to the picked endpoint; undefined where it may go now. */
  #turnOf({ request, overdue }: Seeker, pick: PolicyPick, isLast: boolean): PrefillWait | undefined {
    const { balancer, room, turns } = this.#parts;
    const { route, tried, underWay } = request;
    if (underWay) return undefined;
    return turns?.waitFor(pick, {
      tokens: balancer.expectedTokens(route),
      isLast,
      overdue,
      pickAnywhere: () => {
        const anywhere = balancer.pickAnywhere(room.endpoints, route, tried);
        return "pick" in anywhere ? anywhere.pick : undefined;
      },
    });
  }

  /** Takes a place for a request on the picked endpoint. */
  #take({ demand, overdue }: Seeker, { endpoint, placement }: PolicyPick): Admitted<Member> | NoRoom {
    const { room, onRelease } = this.#parts;
    const { address } = endpoint;
    const member = this.#parts.member(address);
    // A place on an endpoint that has left meanwhile would never be released.
    const permit = member && room.breaker.tryRequest(address, room.capOf(endpoint));
    if (!member || !permit) return "all_full";
    room.reconsider(address);
    demand.take();
    // Synchronously: requests admitted after this one in the same turn must see its work.
    placement?.begin();
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      placement?.end();
      demand.end();
      permit.release();
      room.reconsider(address);
      onRelease();
    };
    return { member, placement, overdue, release };
  }
}

/** Returns whether the result of a search is a wait of any kind. */
export function isNoRoom(result: Admitted<unknown> | NotAdmitted | NoRoom): result is NoRoom {
  return result === "all_full" || result === "kept_for_others" || isWait(result);
}

/** Returns whether the result of a search is a wait for prefill, or for a place on one endpoint. */
export function isWait(result: Admitted<unknown> | NotAdmitted | NoRoom): result is PrefillWait {
  return typeof result === "object" && "kind" in result;
}
