import * as z from "zod";
import { frequencyPenalty, presencePenalty, temperatureUpTo, topP } from "../sampling-fields.ts";

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
  stream: flag.describe("Whether the answer comes as server-sent events. Default: `false`."),
  stream_options: open({
    include_usage: flag.describe("Whether a last chunk before `[DONE]` holds the usage. Default: `false`."),
  }).describe("What a stream holds beside the answer. It means nothing without `stream`."),
  max_tokens: tokens.describe(
    "The most tokens of the answer, those of reasoning included. More than the window has room for is cut to that. Default: what is left of the window.",
  ),
  max_completion_tokens: tokens.describe("The newer name of `max_tokens`; it wins where both are sent."),
  temperature: temperatureUpTo(2),
  top_p: topP,
  frequency_penalty: frequencyPenalty,
  presence_penalty: presencePenalty,
  repetition_penalty: z
    .number()
    .min(0.01)
    .max(10)
    .nullish()
    .describe("A divisor of the odds of tokens that have occurred; 1 is neutral. Default: the model's own."),
  top_k: z
    .int()
    .min(-1)
    .max(2 ** 31 - 1)
    .nullish()
    .describe("The number of likeliest tokens to choose from; 0 and -1 mean all. Default: the model's own."),
  min_p: z
    .number()
    .min(0)
    .max(1)
    .nullish()
    .describe(
      "The least probability of a token to be chosen, as a share of that of the likeliest one. Default: the model's own.",
    ),
  logprobs: flag.describe("Whether the log probabilities of the answer's tokens are returned. Default: `false`."),
  top_logprobs: z
    .int()
    .min(0)
    .max(20)
    .nullish()
    .describe("The number of likeliest tokens to list at each place, with `logprobs`. Default: 0."),
  n: z.int().min(1).nullish().describe("The number of choices. Only 1 is supported."),
  parallel_tool_calls: flag.describe("Whether one answer may hold more than one tool call. Default: `true`."),
  modalities: z.array(z.string()).nullish().describe("The kinds of output. Only `text` is supported."),
  prompt_cache_key: z
    .string()
    .nullish()
    .describe(
      "A text that requests with a common beginning share, so that they meet the same cache. At most 512 characters.",
    ),
  cache_ttl: z
    .string()
    .nullish()
    .describe("How long the beginning of this prompt is worth keeping. It is a hint. Default: the node's own time."),
  reasoning: open({
    effort: z
      .string()
      .nullish()
      .describe(
        "How much to reason: `none` switches reasoning off, `minimal` is `low`, and `xhigh` and `max` are `high`. Default: the model's own.",
      ),
  }).describe("Whether and how much the model reasons before it answers."),
  reasoning_effort: z.string().nullish().describe("The same as `reasoning.effort`, which wins."),
});

/** The plain fields of a checked body. */
export type ChatScalars = z.infer<typeof chatScalars>;
