import type { Discovery, DiscoveryOptions } from "./discovery.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { DnsDiscovery } from "./dns-discovery.ts";
import { FileDiscovery } from "./file-discovery.ts";

/**
 * Begins to look for endpoints in the way that the settings name. Endpoints that stand in the settings themselves are
 * told before this returns.
 */
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
