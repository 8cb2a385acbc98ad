import * as z from "zod";

/** The schema of the retry budget, Envoy's `retry_budget`. */
export const retryBudgetSchema = z
  .strictObject({
    budgetPercent: z
      .number()
      .min(0)
      .max(100)
      .default(20)
      .describe("The number of retries at once, in percent of the cluster's requests that run or wait."),
    minRetryConcurrency: z.int().min(0).default(3).describe("The number of retries at once that are always allowed."),
  })
  .prefault({})
  .describe("How many retries the cluster may have under way; one that finds no room fails its request.");

export type RetryBudgetSettings = Readonly<z.infer<typeof retryBudgetSchema>>;

/** The schema of retries, Envoy's `retry_policy` as far as generation allows one. */
export const retrySchema = z
  .strictObject({
    numRetries: z
      .int()
      .min(0)
      .max(5)
      .default(2)
      .describe(
        "The number of further attempts that a request may have after its first, before its first delta. One whose endpoints are lost while they work on it is retried for as long as a request may be held (noEndpointHoldMs), up to 16 times.",
      ),
  })
  .prefault({})
  .describe("How often a request is retried.");
