import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointSpec } from "./endpoint-schema.ts";
import type { Resolve } from "./resolve.ts";

/** The results of a cluster's discovery so far, in Envoy's `update_*` counters. */
export type DiscoveryStatus = {
  /** The number of completed attempts. */
  readonly attempts: number;
  /** The number of attempts that returned endpoints. */
  readonly successes: number;
  /** The number of attempts without a result: a missing file, an unanswered name. */
  readonly failures: number;
  /** The number of attempts with an unusable result: a bad file, an empty answer. */
  readonly rejected: number;
  /**
   * The reason why the newest attempt failed; undefined when it succeeded. For operators: it contains only names from
   * the configuration.
   */
  readonly fault: string | undefined;
};

/** The source of a cluster's endpoints. A result is kept until a better one replaces it. */
export type Discovery = {
  readonly status: DiscoveryStatus;
  /** Stops the discovery; the endpoints found stay as they are. */
  close(): void;
};

export type DiscoveryOptions = {
  /** The clock of the refreshes. */
  readonly clock: Clock;
  /** Returns a random number uniform over [0, 1). */
  readonly random: () => number;
  readonly resolve: Resolve;
  /** Called with all endpoints when they are first discovered, and after every change. */
  readonly onEndpoints: (endpoints: readonly EndpointSpec[]) => void;
  /** Called when the fault appears, changes or ends; undefined for its end. */
  readonly onFault: (fault: string | undefined) => void;
};
