import * as z from "zod";

/** Schema of the settings for metrics. */
export const statsSchema = z
  .strictObject({
    keySeries: z
      .int()
      .min(0)
      .max(10_000)
      .default(100)
      .describe(
        "The most keys with a series of their own in `svc_key_…` per gateway; all others count as `other`. The ids of these keys are visible in the metrics; they are no secret.",
      ),
  })
  .prefault({})
  .describe("Metrics of single keys.");
