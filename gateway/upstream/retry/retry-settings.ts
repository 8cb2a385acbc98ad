import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

/** The schema of the settings of the retry budget, Envoy's `retry_budget`. */
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

/** The settings of how many retries a cluster may have under way. */
export type RetryBudgetSettings = Readonly<z.infer<typeof retryBudgetSchema>>;

const backOffSchema = z
  .strictObject({
    baseIntervalMs: milliseconds(
      50,
      "The longest wait before the first retry, in milliseconds; before each further one it more than doubles.",
    ),
    maxIntervalMs: milliseconds(500, "The longest wait before any retry, in milliseconds."),
  })
  .prefault({})
  .describe("The wait before a retry is drawn evenly from its range.");

/** The settings of how long a request waits before it is tried again. */
export type BackOffSettings = Readonly<z.infer<typeof backOffSchema>>;

/** The schema of the settings by which a request is found to kill engines. */
export const requestOfDeathSchema = z
  .strictObject({
    endpoints: z
      .int()
      .min(2)
      .max(100)
      .default(2)
      .describe("The number of different endpoints that a request must have killed to be denied."),
    withinMs: milliseconds(
      20_000,
      "The time, in milliseconds, after which the death of an endpoint is not blamed on a request any more that it works on.",
    ),
    suspectMs: milliseconds(120_000, "The time, in milliseconds, for which a request is suspected after a death."),
    denyMs: milliseconds(600_000, "The time, in milliseconds, for which a request is denied after the last death."),
    oneDeathMs: milliseconds(1_000, "The time, in milliseconds, within which losses of one endpoint are one death."),
    // About as long as a node takes to start.
    apartMs: milliseconds(
      10_000,
      "The time, in milliseconds, for which requests stay away of which one or another may be to blame.",
    ),
    mostDeaths: z
      .int()
      .min(2)
      .max(100)
      .default(6)
      .describe(
        "The number of deaths after which a request is denied even if it was never the only one in question. Where nodes are killed one after another for reasons of their own, four in a row befall one of a thousand innocent requests.",
      ),
    maxEntries: z
      .int()
      .min(1)
      .default(1_024)
      .describe("The number of suspected requests that are remembered; the oldest go first."),
  })
  .prefault({})
  .describe("A request that looks as if it kills engines is not tried any more.");

/** The settings of how a request is found that kills engines. */
export type RequestOfDeathSettings = Readonly<z.infer<typeof requestOfDeathSchema>>;

/** The schema of the settings of retries, Envoy's `retry_policy` as far as generation allows one. */
export const retrySchema = z
  .strictObject({
    numRetries: z
      .int()
      .min(0)
      .max(5)
      .default(2)
      .describe(
        "The number of further tries that a request may have after its first, before its first delta. One that loses engines which work on it is tried again for as long as a request may be held (noEndpointHoldMs), in the budget of continuation and up to its maxPerAnswer.",
      ),
    retryBackOff: backOffSchema,
    requestOfDeath: requestOfDeathSchema,
  })
  .prefault({})
  .describe("How often a request is tried again, and when it no longer is.");
