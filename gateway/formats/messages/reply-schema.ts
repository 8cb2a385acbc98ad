import * as z from "zod";
import { named, tag, type Written } from "../fields.ts";

const usageCounts = {
  input_tokens: z
    .int()
    .describe("The tokens of the prompt that were neither read from nor written to the prefix cache."),
  cache_creation_input_tokens: z
    .int()
    .describe("The tokens of the prompt that were written to the cache for a marked beginning."),
  cache_read_input_tokens: z.int().describe("The tokens of the prompt that were read from the cache."),
  output_tokens: z.int().describe("The tokens of the answer, those of thinking included."),
};

const thinkingCount = {
  output_tokens_details: named("OutputDetails", "What the answer is made of.", {
    thinking_tokens: z.int().describe("The tokens of thinking among `output_tokens`."),
  })
    .optional()
    .describe("What the answer is made of; absent where there was no thinking."),
};

const startedUsage = named("StartedUsage", "The counts at the start; those at the end replace them.", usageCounts);

const finalUsage = named("FinalUsage", "The tokens of prompt and answer.", { ...usageCounts, ...thinkingCount });

export type MessageUsage = Written<typeof finalUsage>;

const stop = {
  stop_reason: z
    .enum([
      "end_turn",
      "stop_sequence",
      "max_tokens",
      "model_context_window_exceeded",
      "tool_use",
      "refusal",
      "compaction",
    ])
    .describe(
      "Why the answer ended: at its end, at a stop text, at `max_tokens`, at the end of the window, to have tools called, filtered, or as it is a summary.",
    ),
  stop_sequence: z.string().nullable().describe("The stop text that ended the answer; null where none did."),
};

const messageStop = named("MessageStop", "How the answer ended.", stop);

export type Stop = Written<typeof messageStop>;

const text = named("ReplyText", "A block of text.", {
  type: tag("text"),
  text: z.string().describe("The text. Empty where a stream opens the block."),
});

const thinking = named("ReplyThinking", "A block of thinking.", {
  type: tag("thinking"),
  thinking: z.string().describe("The text; empty where it is withheld, and where a stream opens the block."),
  signature: z
    .string()
    .describe("What makes the block ours when it is sent back. It holds the text, sealed, where that is withheld."),
});

const toolUse = named("ReplyToolUse", "A block with a tool call.", {
  type: tag("tool_use"),
  id: z.string().describe("The id of the call, which its result names."),
  name: z.string().describe("The name of the tool."),
  input: z.looseObject({}).meta({ description: "The arguments. Empty where a stream opens the block." }),
});

const summary = {
  content: z.string().nullable().describe("The summary; null where a stream opens the block."),
  encrypted_content: z.null().describe("Always null."),
};

const compaction = named("ReplyCompaction", "The summary of a conversation, as the only block.", {
  type: tag("compaction"),
  ...summary,
});

export type ReplyCompaction = Written<typeof compaction>;

const block = z.discriminatedUnion("type", [text, thinking, toolUse, compaction]);

export type ReplyBlock = Written<typeof block>;

const diagnostics = {
  diagnostics: named("Diagnostics", "Why the prompt was not read from the cache.", {
    cache_miss_reason: z
      .discriminatedUnion("type", [
        named("CacheMissed", "The caller changed a part of the prompt that was cached.", {
          type: z.enum(["tools_changed", "system_changed", "messages_changed"]).describe("The part, the first one."),
          cache_missed_input_tokens: z.int().describe("The tokens that would have been read from the cache."),
        }),
        named("CacheUnknown", "The caller's prompt explains nothing.", {
          type: z
            .enum(["previous_message_not_found", "unavailable"])
            .describe("Nothing is known of the conversation so far, or its cached tokens were lost at the service."),
        }),
      ])
      .nullable()
      .describe("The reason; null while it is not known, and `message_delta` then has it."),
  })
    .nullable()
    .optional()
    .describe("Where the request has `diagnostics`: why the cache was missed, null where it was not."),
} as const;

const diagnosed = named("Diagnosed", "The diagnostics.", diagnostics);

export type Diagnosed = Written<typeof diagnosed>;

const head = {
  id: z.string().describe("The id of the message, `msg_…`."),
  type: tag("message"),
  role: tag("assistant"),
  model: z.string().describe("The id of the model."),
};

export const message = named("Message", "A message, the reply to a request without `stream`.", {
  ...head,
  content: z
    .array(block)
    .describe("The blocks of the answer. Thinking may precede the text: look for blocks by their type."),
  ...diagnostics,
  ...stop,
  usage: named("MessageUsage", "The tokens of prompt and answer; the three counts of input add up to the prompt.", {
    ...usageCounts,
    ...thinkingCount,
    service_tier: tag("standard"),
  }),
});

export const tokenCount = named("TokenCount", "The tokens of a prompt.", {
  input_tokens: z.int().min(0).describe("The tokens of the rendered prompt, exact: tools and template included."),
});

const index = z.int().describe("Number of the block, counted from 0 without gaps.");

/** The events of a stream, in their order; each is the `data` of an event named by its type. */
export const messageEvents = [
  named("MessageStart", "The stream begins.", {
    type: tag("message_start"),
    message: named("StartedMessage", "The message without its content.", {
      ...head,
      content: z.array(z.unknown()).max(0).describe("Always empty here."),
      ...diagnostics,
      stop_reason: z.null().describe("Always null here."),
      stop_sequence: z.null().describe("Always null here."),
      usage: startedUsage,
    }),
  }),
  named("ContentBlockStart", "A block begins. Only one is open at a time.", {
    type: tag("content_block_start"),
    index,
    content_block: block.meta({ description: "The block, with nothing in it yet." }),
  }),
  named("ContentBlockDelta", "A piece of the open block.", {
    type: tag("content_block_delta"),
    index,
    delta: z
      .discriminatedUnion("type", [
        named("TextDelta", "A piece of text.", { type: tag("text_delta"), text: z.string().describe("The piece.") }),
        named("ThinkingDelta", "A piece of thinking.", {
          type: tag("thinking_delta"),
          thinking: z.string().describe("The piece."),
        }),
        named("SignatureDelta", "The signature, once, at the end of a thinking block.", {
          type: tag("signature_delta"),
          signature: z.string().describe("The signature."),
        }),
        named("InputJsonDelta", "A piece of the arguments of a call.", {
          type: tag("input_json_delta"),
          partial_json: z.string().describe("The piece; all pieces join to the JSON of `input`, none at all is `{}`."),
        }),
        named("CompactionDelta", "The whole summary, once.", { type: tag("compaction_delta"), ...summary }),
      ])
      .meta({ description: "The piece." }),
  }),
  named("ContentBlockStop", "The open block ends.", { type: tag("content_block_stop"), index }),
  named("MessageDelta", "The answer has ended.", {
    type: tag("message_delta"),
    delta: messageStop,
    usage: finalUsage,
    ...diagnostics,
  }),
  named("MessageStopEvent", "The stream ends.", { type: tag("message_stop") }),
  named(
    "Ping",
    "A sign of life. It may come anywhere behind the beginning, and before it where the prompt takes long.",
    {
      type: tag("ping"),
    },
  ),
] as const;
