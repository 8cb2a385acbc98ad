import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";

export function endpointWith(given: Partial<EndpointView> & { readonly address: string }): EndpointView {
  return {
    healthy: true,
    compatible: true,
    draining: false,
    ejected: false,
    activeRequests: 0,
    running: 0,
    waiting: 0,
    kvUse: 0,
    slots: 8,
    weight: 1,
    healthySinceMs: undefined,
    outstandingPrefillTokens: 0,
    gateways: 1,
    prefillTokensPerSecond: 10_000,
    decodeTokensPerSecond: undefined,
    retentionMs: undefined,
    keptConversations: 0,
    evictedBeforeMs: undefined,
    startedAtMs: 0,
    ...given,
  };
}

export function endpoints(count: number): EndpointView[] {
  return Array.from({ length: count }, (_, index) => endpointWith({ address: `e${index}` }));
}

export function tally(addresses: Iterable<string | undefined>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const address of addresses) if (address !== undefined) counts[address] = (counts[address] ?? 0) + 1;
  return counts;
}
