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
        "The longest time, in milliseconds, for which deltas are held so that several share one write, while the event loop works for more than 0.6 of its time; 20 is a good value where cores are full. Nodes are asked to hold those of new answers as long, too. First deltas, ends and errors never wait, and an idle gateway holds nothing. 0 holds none.",
      ),
  })
  .prefault({})
  .describe("How event streams are written.");
