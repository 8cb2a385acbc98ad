import type { Discovery, DiscoveryOptions } from "./discovery.ts";
import { DnsDiscovery, type DnsSettings } from "./dns-discovery.ts";
import type { EndpointSpec } from "./endpoint-schema.ts";
import { FileDiscovery } from "./file-discovery.ts";

/** Where a cluster's endpoints come from. */
export type DiscoverySettings =
  | { readonly type: "static"; readonly endpoints: readonly EndpointSpec[] }
  | ({ readonly type: "strict_dns" } & DnsSettings)
  | { readonly type: "file"; readonly path: string };

/** Begins to look for endpoints; static ones are told before this returns. */
export function startDiscovery(settings: DiscoverySettings, options: DiscoveryOptions): Discovery {
  switch (settings.type) {
    case "static":
      options.onEndpoints(settings.endpoints);
      return { status: { attempts: 1, successes: 1, failures: 0, rejected: 0, fault: undefined }, close() {} };
    case "strict_dns":
      return new DnsDiscovery(settings, options);
    case "file":
      return new FileDiscovery(settings.path, options);
    default:
      return settings satisfies never;
  }
}
