import * as z from "zod";

/*
 * The plain fields of a body and their ranges; absent and null are one. The schema is open: what stands in no table is
 * tolerated ("Openness" in formats/README.md). What differs by a tag, and what must come first or last in the order of
 * faults, is read by hand in the files beside this one.
 */

const flag = z.boolean().nullish();
const tokens = z.int().min(1).nullish();

/** Makes the schema of an object of which only the named keys are looked at. */
const open = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape).nullish();

/** The schema of the plain fields of a body. */
export const chatScalars = z.object({
  stream: flag,
  stream_options: open({ include_usage: flag }),
  /** The most tokens of reasoning and visible text together. */
  max_tokens: tokens,
  /** The newer name of `max_tokens`; it wins where both are sent. */
  max_completion_tokens: tokens,
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  /** A divisor of the odds of what was said already: 1 is neutral. */
  repetition_penalty: z.number().min(0.01).max(10).nullish(),
  /** The number of likeliest tokens to choose from; 0 and -1 switch it off. */
  top_k: z
    .int()
    .min(-1)
    .max(2 ** 31 - 1)
    .nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  logprobs: flag,
  top_logprobs: z.int().min(0).max(20).nullish(),
  n: z.int().min(1).nullish(),
  parallel_tool_calls: flag,
  modalities: z.array(z.string()).nullish(),
  prompt_cache_key: z.string().nullish(),
  cache_ttl: z.string().nullish(),
  reasoning: open({ effort: z.string().nullish() }),
  reasoning_effort: z.string().nullish(),
});

/** The plain fields of a checked body. */
export type ChatScalars = z.infer<typeof chatScalars>;
