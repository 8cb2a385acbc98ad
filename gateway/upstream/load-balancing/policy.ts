import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CacheNote } from "./cache-reasons.ts";
import type { Candidates } from "./endpoint-set.ts";
import type { EndpointView } from "./endpoint-view.ts";
import type { PrefixIndex } from "./prefix-index.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

export type PolicyParts = {
  readonly prefixes: PrefixIndex;
  /** The prefill work on all endpoints, of all clusters: a node prefills for all its models in one queue. */
  readonly work: WorkLedger;
  readonly clock: Clock;
  readonly random: () => number;
};

/**
 * The load-balancing policy of one cluster. The policy owns all of its state between picks, and learns from an attempt
 * through the `PickObserver` that its pick returns.
 */
export type Policy = {
  /**
   * Picks one of the candidates, of which there is at least one, at the monotonic time `nowMs`. Returns undefined when
   * none is suitable. There may be thousands of candidates: a policy should examine only some of them.
   */
  pick(candidates: Candidates, route: Route, nowMs: number): PolicyPick | undefined;
  /** Returns the estimated number of tokens of a prompt, by the policy's measured tokens per byte. */
  expectedTokens?(route: Route): number;
  /** Called when an endpoint has left the cluster, and its cache with it. */
  forget?(address: string): void;
};

export type PolicyPick = {
  readonly endpoint: EndpointView;
  /** The prompt tokens that the endpoint is expected to prefill; absent where the policy has no expectation. */
  readonly uncachedTokens?: number;
  /** Follows the attempt for the policy; absent when the policy learns nothing from attempts. */
  readonly observer?: PickObserver;
};

export type NoteSink = { cached(note: CacheNote): void };

/**
 * Follows one attempt of a request for the policy that picked its endpoint. `begin` is not called for a pick that is
 * not used.
 */
export type PickObserver = {
  /** The index of the last boundary up to which the endpoint is known or believed to hold the prompt; absent for none. */
  readonly heldUpTo?: number | undefined;
  begin(): void;
  /** Records that another endpoint reads the prompt for this one, or, with `false`, that it does so itself after all. */
  readElsewhere?(is: boolean): void;
  /**
   * Called with the events of one message from the engine: cached tokens, progress and speed of the prefill. `notes`
   * receives the explanation of the first report of cached tokens, once, from a policy that knows reasons.
   */
  see(events: readonly Event[], notes?: NoteSink): void;
  /** Called when the attempt is over, with any result. Idempotent. */
  end(): void;
};

export type PolicyRow = {
  /** One sentence on how the policy picks, for the reference of the configuration. */
  readonly summary: string;
  create(parts: PolicyParts): Policy;
};
