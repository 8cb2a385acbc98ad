import * as z from "zod";
import { hostPortSchema, milliseconds } from "../../../deploy/runtime/config/process-schema.ts";
import { type EndpointSpec, endpointsSchema } from "./endpoint-schema.ts";

/** The schemas of each discovery type's settings, beside those of every cluster. */
export const discoveryShapes = {
  static: {
    type: z.literal("static").default("static").describe("The endpoints stand in the configuration."),
    endpoints: endpointsSchema.describe("The engine nodes of the cluster; one node may stand in several clusters."),
  },
  strictDns: {
    type: z.literal("strict_dns").describe("The endpoints are all addresses that a host name has."),
    address: hostPortSchema.describe("The host and port as host:port; every address that the host has is an endpoint."),
    dnsLookupFamily: z
      .enum(["v4_preferred", "v4_only", "v6_only", "all"])
      .default("v4_preferred")
      .describe("The addresses that count; with all, a node that has IPv4 and IPv6 addresses is two endpoints."),
    dnsRefreshRateMs: milliseconds(
      1_000,
      "The time, in milliseconds, after which the host is looked up again; while that fails, it becomes rarer.",
    ),
  },
  file: {
    type: z.literal("file").describe("The endpoints stand in a file of their own."),
    path: z
      .string()
      .min(1)
      .describe("The path of a YAML or JSON file with a list `endpoints`, which is followed while it changes."),
  },
};

/** The settings of DNS discovery. */
export type DnsSettings = {
  /** The host and port, as `host:port`. */
  readonly address: string;
  /** The interval between lookups of the host, in milliseconds. */
  readonly dnsRefreshRateMs: number;
  readonly dnsLookupFamily: DnsLookupFamily;
};

/**
 * The address families of a host, Envoy's `dns_lookup_family`. A node with addresses of both families would be two
 * endpoints: a preferred family therefore excludes the other, unless there is no address of the first.
 */
export type DnsLookupFamily = "v4_preferred" | "v4_only" | "v6_only" | "all";

/** The settings of a cluster's discovery. */
export type DiscoverySettings =
  | { readonly type: "static"; readonly endpoints: readonly EndpointSpec[] }
  | ({ readonly type: "strict_dns" } & DnsSettings)
  | { readonly type: "file"; readonly path: string };
