import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointSpec } from "./endpoint-schema.ts";
import type { Resolve } from "./resolve.ts";

/** The record of a cluster's discovery so far, in the counters that Envoy calls `update_*`. */
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
   * The reason why the newest attempt brought nothing; undefined when it did. It is for the operator, and names what
   * the configuration names.
   */
  readonly fault: string | undefined;
};

/** The source of a cluster's endpoints. What it learned once stays until it learns something better. */
export type Discovery = {
  /** The record of the attempts so far. */
  readonly status: DiscoveryStatus;
  /** Stops looking for endpoints; those that were found stay as they are. */
  close(): void;
};

/** What a discovery works with. */
export type DiscoveryOptions = {
  /** The clock by which the source is looked at again. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Looks up the addresses of a host. */
  readonly resolve: Resolve;
  /** Called with all endpoints when they are known for the first time, and whenever they have changed. */
  readonly onEndpoints: (endpoints: readonly EndpointSpec[]) => void;
  /** Called when the fault came, changed or went; undefined says that it went. */
  readonly onFault: (fault: string | undefined) => void;
};
