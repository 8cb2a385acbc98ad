import * as z from "zod";

/** Schema of the settings for event streams. */
export const streamSchema = z
  .strictObject({
    maxJoinMs: z
      .int()
      .min(0)
      .max(1_000)
      .default(0)
      .describe(
        "The longest time, in milliseconds, for which deltas are held so that several share one write, while event loop utilization is above 0.6; 20 is a good value for busy cores. Nodes hold the deltas of new answers as long, too. First deltas, ends and errors are never held, and an idle gateway holds no deltas. 0 disables this.",
      ),
  })
  .prefault({})
  .describe("Writing of event streams.");
