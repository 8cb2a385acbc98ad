import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Candidates } from "./candidates.ts";
import type { EndpointView } from "./endpoint-view.ts";
import type { HeldPrefixes } from "./held-prefixes.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The parts of a cluster and of the gateway that a policy works with. */
export type PolicyParts = {
  /** What the endpoints of the cluster tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /** The prefill work on all endpoints, of all clusters: a node prefills for all its models in one row. */
  readonly work: WorkLedger;
  /** The clock of the gateway. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/**
 * A load-balancing policy at work for one cluster. It owns whatever it remembers between picks; nobody else keeps state
 * for it. What it wants to learn from a try it learns through the `Placement` that its pick gives out.
 */
export type Policy = {
  /**
   * Picks one of the candidates, which are never none, at the monotonic time `nowMs`. Returns undefined when none of
   * them suits. There may be thousands: a policy that can looks only at some of them.
   */
  pick(candidates: Candidates, route: Route, nowMs: number): PolicyPick | undefined;
  /** Returns the number of tokens of a prompt, where the policy has learned how many there are to a byte. */
  expectedTokens?(route: Route): number;
  /** Tells the policy that an endpoint has left the cluster, and with it what was in its cache. */
  forget?(address: string): void;
};

/** What a policy has picked. */
export type PolicyPick = {
  /** The endpoint that the request goes to. */
  readonly endpoint: EndpointView;
  /** The prompt tokens that the endpoint is expected to prefill; absent where the policy expects nothing. */
  readonly uncachedTokens?: number;
  /** Follows the try for the policy; absent when the policy learns nothing from tries. */
  readonly placement?: Placement;
};

/**
 * Follows one try of a request for the policy that picked its endpoint. A pick that comes to nothing is never begun.
 */
export type Placement = {
  /** Tells that the call is on its way to the endpoint. */
  begin(): void;
  /** Tells of the events of one message from the engine: what was cached, how far the prefill is, how fast it was. */
  see(events: readonly Event[]): void;
  /** Tells that the try is over, however it went. A second call does nothing. */
  end(): void;
};

/** A policy as the table of all policies has it. */
export type PolicyRow = {
  /** One sentence on how the policy picks, for the reference of the configuration. */
  readonly summary: string;
  /** Makes the policy for one cluster. */
  create(parts: PolicyParts): Policy;
};
