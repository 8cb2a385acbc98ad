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
  /** What the queue and the picking of an endpoint may look at. */
  readonly hints: RoutingHints;
  /** The addresses of the endpoints that are not to get the request. They no longer count once it is held in an outage. */
  readonly tried: ReadonlySet<string>;
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

/** A request that looks for a place, when it comes or after a wait. */
export type Seeker = {
  /** What is asked for. */
  readonly request: PlaceRequest;
  /** Knows whether the tenant of the request may have one more place. */
  readonly demand: PlaceDemand;
  /** Whether the request has waited for its prefill for as long as it may. */
  readonly overdue: boolean;
};

/** A place on an endpoint, held by one try of a request. */
export type Admitted<Member> = {
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
 * What a search for a place comes to where the request may wait: no endpoint has room, or what there is is kept for other
 * tenants, or it is not the turn of a prompt that needs much prefill.
 */
export type NoRoom = "all_full" | "kept_for_others" | PrefillWait;

/** What places are found by. */
export type PlaceSearchParts<Member> = {
  /** Returns the member of the cluster at an address; undefined where it has none there. */
  readonly member: (address: string) => Member | undefined;
  /** Picks the endpoint that suits a request best. */
  readonly balancer: Balancer;
  /** Knows which endpoints have room, and counts the requests that run. */
  readonly room: EndpointRoom;
  /** Knows whose turn it is of the prompts that need much prefill; undefined where nobody waits for that. */
  readonly turns: PrefillTurns | undefined;
  /** The clock by which turns are measured. */
  readonly clock: Pick<Clock, "nowMs">;
  /** Called after a place was given back. */
  readonly onRelease: () => void;
};

/** Finds places on the endpoints of a cluster, as they are at this moment: it has nobody wait. */
export class PlaceSearch<Member> {
  readonly #parts: PlaceSearchParts<Member>;

  constructor(parts: PlaceSearchParts<Member>) {
    this.#parts = parts;
  }

  /**
   * Takes a place for a request, or says why there is none. `isLast` says that others wait for their prefill, behind whom
   * this request comes with its own.
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

  /** Returns what a request has to wait for before it goes where the policy picked; undefined where it may go now. */
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

  /** Takes a place for a request where the policy picked. */
  #take({ demand, overdue }: Seeker, { endpoint, placement }: PolicyPick): Admitted<Member> | NoRoom {
    const { room, onRelease } = this.#parts;
    const { address } = endpoint;
    const member = this.#parts.member(address);
    // A place that is taken for one which has left meanwhile would never be given back.
    const permit = member && room.breaker.tryRequest(address, room.capOf(endpoint));
    if (!member || !permit) return "all_full";
    room.reconsider(address);
    demand.take();
    // At once: whoever is let in behind this request in the same turn is to know of its work.
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

/** Returns whether a request that looked for a place has to wait for its turn. */
export function isNoRoom(result: Admitted<unknown> | NotAdmitted | NoRoom): result is NoRoom {
  return result === "all_full" || result === "kept_for_others" || isWait(result);
}

/** Returns whether a request that looked for a place has to wait for its prefill, or for one endpoint's place. */
export function isWait(result: Admitted<unknown> | NotAdmitted | NoRoom): result is PrefillWait {
  return typeof result === "object" && "kind" in result;
}
