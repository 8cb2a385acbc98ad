import * as z from "zod";
import { DEFAULT_CLASS_SHARES } from "../../../deploy/runtime/queue/class-share.ts";
import { MAX_PENDING_REQUESTS, PENDING_PER_SLOT } from "./circuit-breaker.ts";

const limit = (text: string) => z.int().min(0).optional().describe(text);

const share = (value: number, name: string) =>
  z
    .number()
    .positive()
    .default(value)
    .describe(`The share of the endpoints' work that requests of the class ${name} are sure of while they wait.`);

const prefillTurnSchema = z
  .strictObject({
    longSeconds: z
      .number()
      .min(0)
      .max(600)
      .default(2)
      .describe("The time, in seconds, that an endpoint prefills a prompt for, above which the prompt is a long one."),
    maxAheadSeconds: z
      .number()
      .min(0)
      .max(600)
      .default(2)
      .describe(
        "The prefill, in seconds, that an endpoint may have yet to do when it is sent a long one; with more, the prompt waits in the gateway.",
      ),
  })
  .prefault({})
  .describe(
    "Prompts that need much prefill go to an endpoint one after the other, so that those which are cached there do not wait behind them until they are evicted. Only `prefix_affinity` knows which they are.",
  );

/** The settings on how prompts that need much prefill take turns, checked, with their defaults. */
export type PrefillTurnSettings = Readonly<z.infer<typeof prefillTurnSchema>>;

/** The schemas of the settings on how many requests run and wait, Envoy's `circuit_breakers.thresholds`. */
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
  tenantReservePercent: z
    .number()
    .min(0)
    .max(90)
    .default(50)
    .describe(
      "The largest share of the running requests, in percent, that is kept from a single tenant: as many places as all others have wanted within the last minute, so that whoever comes next does not wait for a flood. Of the room of held requests this share is always kept.",
    ),
  maxTokenCounts: z
    .int()
    .min(1)
    .default(128)
    .describe("The number of token counts of the cluster's model that are under way at once; they take no slot."),
  noEndpointHoldMs: z
    .int()
    .min(0)
    .default(120_000)
    .describe(
      "The time, in milliseconds, for which a streamed request is held while no endpoint of the cluster is available, from its coming or from the loss of the last endpoint; its client is sent signs of life. When an endpoint is back it is served in its turn, for which it may wait as long again. 0 holds nobody. Requests that are not streamed and have not lost an endpoint, and what finds no room, get 503 (529 in Format B) at once.",
    ),
  maxHeldRequests: z
    .int()
    .min(1)
    .default(MAX_PENDING_REQUESTS)
    .describe(
      "The number of the cluster's requests that are held at once while no endpoint is available; a single tenant gets no more than tenantReservePercent leaves it, and a key no more than its own record lets wait.",
    ),
  maxHeldBytes: z
    .int()
    .min(1)
    .default(64 * 1024 * 1024)
    .describe(
      "The size, in bytes, of the bodies of the cluster's held requests together; a single tenant gets no more than tenantReservePercent leaves it. They also count in inflightBodyBytes.",
    ),
  workingSetWaitMs: z
    .int()
    .min(0)
    .max(3_600_000)
    .default(240_000)
    .describe(
      "The time, in milliseconds, for which a prompt that needs much prefill waits for its turn while the fleet has more sessions than its KV caches hold: the sessions that were served least of what they want come first. Then it takes the next turn of any endpoint, although it evicts what others would yet have used; after as long again it is refused, to come back later. A request that is not streamed waits half of pendingTimeoutMs at most. 0 has nobody wait.",
    ),
  prefillTurns: prefillTurnSchema,
  classShares: z
    .strictObject({
      high: share(DEFAULT_CLASS_SHARES.high, "high"),
      default: share(DEFAULT_CLASS_SHARES.default, "default"),
      low: share(DEFAULT_CLASS_SHARES.low, "low"),
    })
    .prefault({})
    .describe("What a class does not use of its share, the others get."),
};
