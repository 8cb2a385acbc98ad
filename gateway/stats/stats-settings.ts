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
        "The most keys whose use each gateway shows under their own id in `svc_key_…`; all others stand there as `other`. Whoever reads metrics sees the ids of these keys, which are no secret.",
      ),
  })
  .prefault({})
  .describe("How many keys have metrics of their own.");
