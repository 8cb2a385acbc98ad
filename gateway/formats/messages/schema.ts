import * as z from "zod";

/** The most messages that one request may have. */
export const MAX_MESSAGES = 100_000;

/** The largest `top_k`, the widest number that the contract carries. */
const MAX_TOP_K = 2 ** 32 - 1;

const outputFormat = z.object({ type: z.enum(["json_schema"]), schema: z.unknown() });

/**
 * The flat part of the body of a message; keys that are not named are tolerated. `model`, `system`, `messages`, `tools`
 * and `tool_choice` hold forms that differ by a tag: they are walked by hand, as a union's issues point nowhere.
 */
export const messagesBody = z.object({
  messages: z.array(z.unknown()).min(1).max(MAX_MESSAGES),
  max_tokens: z.int().min(1),
  stream: z.boolean().nullish(),
  temperature: z.number().min(0).max(1).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: z.int().min(0).max(MAX_TOP_K).nullish(),
  thinking: z
    .object({
      type: z.enum(["enabled", "disabled", "adaptive", "between_tools"]),
      budget_tokens: z.int().min(1).nullish(),
      display: z.unknown().optional(),
    })
    .nullish(),
  output_config: z
    .object({
      effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]).nullish(),
      format: outputFormat.nullish(),
    })
    .nullish(),
  /** The older place of `output_config.format`. */
  output_format: outputFormat.nullish(),
});

/** The flat part of a count, which asks for no answer, so that `max_tokens` may be absent or anything. */
export const countTokensBody = messagesBody.extend({ max_tokens: z.unknown().optional() });

/** What the bodies of messages and counts have in common once they are checked. */
export type MessagesBody = Omit<z.infer<typeof messagesBody>, "max_tokens">;
