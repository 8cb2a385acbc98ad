import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointSpec } from "./endpoint-schema.ts";
import type { Resolve } from "./resolve.ts";

/** What became of a cluster's discovery so far, in the counters that Envoy calls `update_*`. */
export type DiscoveryStatus = {
  /** The number of attempts that are over. */
  readonly attempts: number;
  /** The number of attempts that brought endpoints. */
  readonly successes: number;
  /** The number of attempts that learned nothing: the file is not there, the name is not answered. */
  readonly failures: number;
  /** The number of attempts that learned what is of no use: a bad file, an empty answer. */
  readonly rejected: number;
  /**
   * Why the newest attempt brought nothing; undefined when it did. It is for the operator, and names what the
   * configuration names.
   */
  readonly fault: string | undefined;
};

/** The source of a cluster's endpoints. What it learned once stays until it learns something better. */
export type Discovery = {
  /** What became of the attempts so far. */
  readonly status: DiscoveryStatus;
  /** Looks for endpoints no more. */
  close(): void;
};

/** What looking for endpoints takes. */
export type DiscoveryOptions = {
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Looks up the addresses of a host. */
  readonly resolve: Resolve;
  /** Is called with all endpoints when they are known for the first time, and whenever they have changed. */
  readonly onEndpoints: (endpoints: readonly EndpointSpec[]) => void;
  /** Is called when the fault came, changed or went. */
  readonly onFault: (fault: string | undefined) => void;
};
