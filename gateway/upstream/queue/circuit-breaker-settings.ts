import * as z from "zod";
import { MAX_PENDING_REQUESTS, PENDING_PER_SLOT } from "./circuit-breaker.ts";

const limit = (text: string) => z.int().min(0).optional().describe(text);

/** The schemas of the limits on running and pending requests, Envoy's `circuit_breakers.thresholds`. */
export const circuitBreakerShape = {
  maxRequests: limit(
    "The number of the cluster's requests that run at once; without it, as many as the available endpoints have slots.",
  ),
  maxPendingRequests: limit(
    `The number of the cluster's requests that may wait; without it, ${PENDING_PER_SLOT} for each slot, at most ${MAX_PENDING_REQUESTS}.`,
  ),
  maxRequestsPerEndpoint: limit(
    "The number of requests that run at once on one endpoint; without it, as many as it has slots.",
  ),
  maxPendingRequestsPerKey: z
    .int()
    .min(1)
    .default(32)
    .describe("The number of requests of one key that may wait, unless the key's record has a number of its own."),
  noEndpointHoldMs: z
    .int()
    .min(0)
    .default(120_000)
    .describe(
      "The time, in milliseconds, for which a streamed request is held while no endpoint of the cluster is available, from its coming or from the loss of the last endpoint; its client is sent signs of life. When an endpoint is back it is served in its turn, for which it may wait as long again. 0 holds no request. Requests that are not streamed and have not lost an endpoint, and those that find no room, get 503 (529 in Format B) at once.",
    ),
  maxHeldRequests: z
    .int()
    .min(1)
    .default(MAX_PENDING_REQUESTS)
    .describe(
      "The number of the cluster's requests that are held at once while no endpoint is available; a single tenant gets half of them at most, and a key no more than its own record lets wait. Their bodies together take 64 MiB at most, and count in inflightBodyBytes, too.",
    ),
  workingSetWaitMs: z
    .int()
    .min(0)
    .max(3_600_000)
    .default(240_000)
    .describe(
      "The time, in milliseconds, for which a prompt that needs much prefill waits for its turn while the fleet has more sessions than its KV caches hold. Then it takes the next turn of any endpoint, although it evicts what others would yet have used; after as long again it is refused, to come back later. A request that is not streamed waits half of pendingTimeoutMs at most. With 0 no prompt waits.",
    ),
};
