import * as z from "zod";
import { hostPortSchema } from "../../../deploy/runtime/config/process-schema.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

export const endpointSchema = z.strictObject({
  address: hostPortSchema.describe("The host and port of an engine node's gRPC, as host:port."),
  loadBalancingWeight: z
    .int()
    .min(1)
    .max(128)
    .default(1)
    .describe("The share of the requests that the endpoint gets beside others."),
});

export const endpointsSchema = z
  .array(endpointSchema)
  .refine((all) => new Set(all.map(({ address }) => address)).size === all.length, "an address stands there twice");

export type EndpointSpec = Readonly<z.infer<typeof endpointSchema>>;

/** The schemas of each discovery type's settings, beside those of every cluster. */
export const discoveryShapes = {
  static: {
    type: z.literal("static").default("static").describe("The endpoints stand in the configuration."),
    endpoints: endpointsSchema.describe("The engine nodes of the cluster; one node may stand in several clusters."),
  },
  strictDns: {
    type: z
      .literal("strict_dns")
      .describe(
        "The endpoints are all IPv4 addresses that a host name has, or its IPv6 addresses where it has no other.",
      ),
    address: hostPortSchema.describe(
      "The host and port as host:port; every address that the host has is an endpoint. It is looked up every second; while that fails, it becomes rarer.",
    ),
  },
  file: {
    type: z.literal("file").describe("The endpoints stand in a file of their own."),
    path: z
      .string()
      .min(1)
      .describe("Path of a YAML or JSON file with a list `endpoints`, which is followed while it changes."),
  },
};

/** The results of a cluster's discovery so far, in Envoy's `update_*` counters. */
export type DiscoveryStatus = {
  readonly attempts: number;
  /** Attempts that returned endpoints. */
  readonly successes: number;
  /** Attempts without a result: a missing file, an unanswered name. */
  readonly failures: number;
  /** Attempts with an unusable result: a bad file, an empty answer. */
  readonly rejected: number;
  /** Why the newest attempt failed, for operators: it contains only names from the configuration. */
  readonly fault: string | undefined;
};

/** The source of a cluster's endpoints. A result is kept until a better one replaces it. */
export type Discovery = {
  readonly status: DiscoveryStatus;
  /** Stops the discovery; the endpoints found stay as they are. */
  close(): void;
};

/** Looks up all IP addresses of a host. Rejects when there are none, or the lookup fails. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export type DiscoveryOptions = {
  readonly clock: Clock;
  readonly random: () => number;
  readonly resolve: Resolve;
  /** Called with all endpoints when they are first discovered, and after every change. */
  readonly onEndpoints: (endpoints: readonly EndpointSpec[]) => void;
  /** Called when the fault appears, changes or ends; undefined for its end. */
  readonly onFault: (fault: string | undefined) => void;
};

/** Counts the results of one discovery's attempts, and reports changes of its fault. */
export class DiscoveryRecord {
  readonly #onFault: (fault: string | undefined) => void;
  status: DiscoveryStatus = { attempts: 0, successes: 0, failures: 0, rejected: 0, fault: undefined };

  constructor(onFault: (fault: string | undefined) => void) {
    this.#onFault = onFault;
  }

  /** Counts an attempt; `fault` is the reason of one without a usable result, for operators. */
  count(result: "successes" | "failures" | "rejected", fault?: string): void {
    const { fault: before, ...counts } = this.status;
    this.status = { ...counts, attempts: counts.attempts + 1, [result]: counts[result] + 1, fault };
    if (fault !== before) this.#onFault(fault);
  }
}
