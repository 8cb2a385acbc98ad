import * as z from "zod";

/** The schema of the settings on how answers outlive their engines. */
export const continuationSchema = z
  .strictObject({
    maxBytes: z
      .int()
      .min(0)
      .optional()
      .describe(
        "The size, in bytes, of what is kept of running answers so that another engine can go on with them: their requests, as encoded, and 4 bytes a token. Without it, an eighth of what processMemory of the overload manager has, at most 268435456. An answer that finds no room fails with its engine. 0 continues none.",
      ),
    maxShareOfKey: z
      .number()
      .gt(0)
      .max(1)
      .default(0.5)
      .describe(
        "The share of maxBytes, up to 1, that the answers of one owner's keys take up; a single one may be larger.",
      ),
    maxPerAnswer: z
      .int()
      .min(0)
      .max(1_000)
      .default(16)
      .describe(
        "The number of engines that an answer may lose and be continued. One that is lost twice in a row without a new token is not continued, as it may be what the engines are lost by; where others were lost with it, it is continued after a wait, up to `retry.requestOfDeath.mostDeaths`.",
      ),
    budgetPercent: z
      .number()
      .min(0)
      .max(100)
      .default(100)
      .describe(
        "The number of answers that are being continued at once, together with the retries, in percent of the cluster's requests that run or wait; retryBudget.minRetryConcurrency of them always may. At 100 all may be, as when all engines are replaced at once.",
      ),
  })
  .prefault({})
  .describe(
    "How answers go on at another engine when theirs is lost, falls silent or drains, where both engines can: the caller sees a pause.",
  );

/** The settings on how answers outlive their engines. */
export type ContinuationSettings = Readonly<z.infer<typeof continuationSchema>>;
