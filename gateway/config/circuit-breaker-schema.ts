import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import { DEFAULT_ADAPTIVE_LIFO } from "../upstream/queue/adaptive-lifo.ts";
import { DEFAULT_PENDING_QUEUE } from "../upstream/queue/pending-queue.ts";
import { DEFAULT_RETRY_BUDGET } from "../upstream/retry/retry-budget.ts";

const limit = (text: string) => z.int().min(0).optional().describe(text);

/** Envoy's `circuit_breakers.thresholds`. What is absent follows the slots that the endpoints report. */
export const circuitBreakerSchema = z
  .strictObject({
    maxRequests: limit("Requests that run at once. Absent: the slots of the available endpoints."),
    maxPendingRequests: limit("Requests that wait for an endpoint. Absent: 4 for each slot, at most 512."),
    maxRequestsPerEndpoint: limit("Requests that run at once on one endpoint. Absent: its slots."),
    maxPendingRequestsPerKey: z
      .int()
      .min(1)
      .default(DEFAULT_PENDING_QUEUE.maxPendingPerKey)
      .describe("Requests of one key that wait, unless its record says `queued`."),
    failfastMs: milliseconds(
      3_000,
      "How long those who wait go on waiting while no endpoint is available; who comes then is refused at once.",
    ),
    adaptiveLifo: z
      .strictObject({
        targetMs: milliseconds(
          DEFAULT_ADAPTIVE_LIFO.targetMs,
          "A queue is too slow while nobody is served who has waited less.",
        ),
        intervalMs: milliseconds(DEFAULT_ADAPTIVE_LIFO.intervalMs, "Too slow for so long, it is served newest first."),
        timeoutMs: milliseconds(DEFAULT_ADAPTIVE_LIFO.timeoutMs, "How long anybody waits from then on."),
      })
      .prefault({})
      .describe("Newest first, until nobody waits: some are then served at once, instead of everybody too late."),
    retryBudget: z
      .strictObject({
        budgetPercent: z
          .number()
          .min(0)
          .max(100)
          .default(DEFAULT_RETRY_BUDGET.budgetPercent)
          .describe("Retries at once, in percent of the requests that run or wait."),
        minRetryConcurrency: z
          .int()
          .min(0)
          .default(DEFAULT_RETRY_BUDGET.minRetryConcurrency)
          .describe("Retries at once that are always allowed."),
      })
      .prefault({}),
  })
  .prefault({});
