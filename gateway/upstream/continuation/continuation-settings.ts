import * as z from "zod";

/** The schema of the settings on continued answers. */
export const continuationSchema = z
  .strictObject({
    maxBytes: z
      .int()
      .min(0)
      .optional()
      .describe(
        "The size, in bytes, of the memory that is kept for running answers so that another engine can continue them: their requests, as encoded, and 4 bytes a token. Without it, an eighth of what processMemory of the overload manager has, at most 268435456. The answers of one owner's keys take up half of it at most; a single one may be larger. An answer that finds no room fails with its engine. 0 continues none.",
      ),
  })
  .prefault({})
  .describe(
    "How answers are continued at another engine when theirs is lost, falls silent or drains, where both engines can: the client sees a pause. An answer is continued up to 16 times; one that loses two engines in a row without a new token is not, unless other requests or engines were lost with it.",
  );

/** The share of the memory for kept answers, up to 1, that one tenant's answers may take. */
export const KEPT_SHARE_OF_KEY = 0.5;
