import type { Discovery, DiscoveryOptions } from "./discovery.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { DnsDiscovery } from "./dns-discovery.ts";
import { FileDiscovery } from "./file-discovery.ts";

/** Starts the discovery of the configured type. Statically configured endpoints are reported before this returns. */
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
