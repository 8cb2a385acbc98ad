import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";
import { DEFAULT_CLASS_SHARES } from "../../../deploy/runtime/queue/class-share.ts";
import { adaptiveLifoSchema } from "./adaptive-lifo.ts";
import { MAX_PENDING_REQUESTS, PENDING_PER_SLOT } from "./circuit-breaker.ts";

const limit = (text: string) => z.int().min(0).optional().describe(text);

const share = (value: number, name: string) =>
  z
    .number()
    .positive()
    .default(value)
    .describe(`The share of the endpoints' work that requests of the class ${name} are sure of while they wait.`);

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
      "The largest share of the running requests, in percent, that is kept from a single tenant: as many places as all others have wanted within the last minute, so that whoever comes next does not wait for a flood.",
    ),
  maxTokenCounts: z
    .int()
    .min(1)
    .default(128)
    .describe("The number of token counts of the cluster's model that are under way at once; they take no slot."),
  failfastMs: milliseconds(
    3_000,
    "The time, in milliseconds, for which waiting requests go on waiting while no endpoint is available; new ones are then refused at once.",
  ),
  classShares: z
    .strictObject({
      high: share(DEFAULT_CLASS_SHARES.high, "high"),
      default: share(DEFAULT_CLASS_SHARES.default, "default"),
      low: share(DEFAULT_CLASS_SHARES.low, "low"),
    })
    .prefault({})
    .describe("What a class does not use of its share, the others get."),
  adaptiveLifo: adaptiveLifoSchema,
};
