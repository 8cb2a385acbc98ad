import * as z from "zod";
import { temperatureUpTo, topP } from "../sampling-fields.ts";

/** The most messages that one request may have. */
export const MAX_MESSAGES = 100_000;

/** The largest `top_k`, the widest number that the contract carries. */
const MAX_TOP_K = 2 ** 32 - 1;

const outputFormat = z.object({
  type: z.enum(["json_schema"]).describe("The kind of the format."),
  schema: z.unknown().describe("The JSON Schema that the text of the answer holds to, as with `strict`."),
});

/**
 * The flat part of the body of a message; keys that are not named are tolerated. `model`, `system`, `messages`, `tools`
 * and `tool_choice` hold forms that differ by a tag: they are walked by hand, as a union's issues point nowhere.
 */
export const messagesBody = z.object({
  messages: z
    .array(z.unknown())
    .min(1)
    .max(MAX_MESSAGES)
    .describe("The conversation so far. Neighbouring messages of one role are one turn."),
  max_tokens: z
    .int()
    .min(1)
    .describe(
      "The most tokens of the answer, those of thinking included. More than the window has room for is cut to that.",
    ),
  stream: z.boolean().nullish().describe("Whether the answer comes as server-sent events. Default: `false`."),
  temperature: temperatureUpTo(1),
  top_p: topP,
  top_k: z
    .int()
    .min(0)
    .max(MAX_TOP_K)
    .nullish()
    .describe("The number of likeliest tokens to choose from; 0 means all. Default: the model's own."),
  thinking: z
    .object({
      type: z
        .enum(["enabled", "disabled", "adaptive", "between_tools"])
        .describe(
          "`disabled` switches thinking off; the others switch it on, `enabled` with a budget and the others without one.",
        ),
      budget_tokens: z
        .int()
        .min(1)
        .nullish()
        .describe("The most tokens of thinking, cut below `max_tokens`. Required with `enabled`."),
      display: z
        .unknown()
        .optional()
        .describe(
          "`omitted` keeps the text of thinking from the reply: its block then has a signature alone, which brings the text back when it is sent again. Any other value shows the text.",
        ),
    })
    .nullish()
    .describe("Whether the model thinks before it answers. Default: the model's own."),
  output_config: z
    .object({
      effort: z
        .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
        .nullish()
        .describe(
          "How much to think. `none` switches thinking off, `minimal` is `low`, and `xhigh` and `max` are `high`.",
        ),
      format: outputFormat.nullish().describe("The form of the answer's text. Default: free text."),
    })
    .nullish()
    .describe("The form and the effort of the answer."),
  output_format: outputFormat.nullish().describe("The older place of `output_config.format`."),
});

/** The flat part of a count, which asks for no answer, so that `max_tokens` may be absent or anything. */
export const countTokensBody = messagesBody.extend({ max_tokens: z.unknown().optional() });

/** What the bodies of messages and counts have in common once they are checked. */
export type MessagesBody = Omit<z.infer<typeof messagesBody>, "max_tokens">;
