import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointSpec } from "./endpoint-schema.ts";
import type { Resolve } from "./resolve.ts";

/** Envoy's `update_*` counters of a cluster. */
export type DiscoveryStatus = {
  readonly attempts: number;
  readonly successes: number;
  /** Nothing could be learned: the file is not there, the name is not answered. */
  readonly failures: number;
  /** What was learned is of no use: a bad file, an empty answer. */
  readonly rejected: number;
  /** Why the newest attempt brought nothing; undefined when it did. For the operator: names what the configuration names. */
  readonly fault: string | undefined;
};

/** The source of a cluster's endpoints. What it learned once stays until it learns something better. */
export type Discovery = {
  readonly status: DiscoveryStatus;
  close(): void;
};

export type DiscoveryOptions = {
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  readonly resolve: Resolve;
  /** All endpoints as they are now; called once the first time something is known, and whenever that changed. */
  readonly onEndpoints: (endpoints: readonly EndpointSpec[]) => void;
  /** The fault came, changed or went. */
  readonly onFault: (fault: string | undefined) => void;
};
