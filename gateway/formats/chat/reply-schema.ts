import * as z from "zod";
import { named, tag } from "../fields.ts";
import { chatToolCall } from "./schema.ts";

const usage = named("ChatUsage", "The tokens of prompt and answer.", {
  prompt_tokens: z.int().describe("The tokens of the prompt."),
  completion_tokens: z.int().describe("The tokens of the answer, those of reasoning included."),
  total_tokens: z.int().describe("The sum of both."),
  prompt_tokens_details: named("ChatPromptDetails", "What of the prompt the prefix cache spared.", {
    cached_tokens: z.int().describe("The tokens of the prompt that were read from the cache."),
    cache_write_tokens: z.int().describe("The tokens of the prompt that were written to it for a marked beginning."),
  }),
  completion_tokens_details: named("ChatCompletionDetails", "What the answer is made of.", {
    reasoning_tokens: z.int().describe("The tokens of reasoning among `completion_tokens`."),
  }),
});

const alternative = {
  token: z.string().describe("The text of the token."),
  logprob: z.number().describe("The natural logarithm of its probability; -9999 stands for an impossible token."),
  bytes: z.array(z.int()).nullable().describe("The bytes of the token, null where they are not known."),
};

const logprobs = named("ChatLogprobs", "The log probabilities of an answer's tokens.", {
  content: z
    .array(
      named("ChatLogprob", "A token of the answer.", {
        ...alternative,
        top_logprobs: z
          .array(named("ChatTopLogprob", "A token that might have stood there.", alternative))
          .describe("The likeliest tokens at this place, as many as `top_logprobs` asked for."),
      }),
    )
    .describe("The tokens in their order."),
  refusal: z.null().describe("Always null."),
});

const finishReason = z
  .enum(["stop", "length", "tool_calls", "content_filter"])
  .describe(
    "Why the answer ended: at its end or at a stop text, at a limit of tokens, to have tools called, or filtered.",
  );

export type ChatFinishReason = z.infer<typeof finishReason>;

const head = {
  id: z.string().describe("The id of the reply, `chatcmpl-…`; the same on all chunks of a stream."),
  created: z.int().describe("The time at which the reply was begun, in seconds since the epoch."),
  model: z.string().describe("The id of the model."),
  service_tier: z.string().optional().describe("`default`, where the request had a `service_tier`."),
};

export const chatCompletion = named("ChatCompletion", "A chat completion, the reply to a request without `stream`.", {
  id: head.id,
  object: tag("chat.completion"),
  created: head.created,
  model: head.model,
  choices: z
    .array(
      named("ChatChoice", "The answer.", {
        index: z.int().describe("Always 0."),
        message: named("ChatReplyMessage", "The message of the model.", {
          role: tag("assistant"),
          content: z.string().nullable().describe("The text; null where the answer is tool calls alone."),
          refusal: z.null().describe("Always null."),
          reasoning_content: z.string().optional().describe("The reasoning; absent where there is none."),
          tool_calls: z.array(chatToolCall).optional().describe("The tool calls; absent where there are none."),
        }),
        logprobs: logprobs.nullable().describe("The log probabilities of the text; null unless asked for."),
        finish_reason: finishReason,
      }),
    )
    .describe("The answer, as the only choice."),
  usage,
  service_tier: head.service_tier,
});

const callFragment = named("ChatToolCallFragment", "A piece of a tool call.", {
  index: z.int().describe("Number of the call, counted from 0."),
  id: z.string().optional().describe("The id of the call, in its first fragment only."),
  type: z.literal("function").optional().describe("`function`, in the first fragment of a call only."),
  function: named("ChatFunctionFragment", "A piece of a function call.", {
    name: z.string().optional().describe("The name of the function, in the first fragment of a call only."),
    arguments: z.string().describe("The next piece of the arguments; the pieces of a call join to JSON text."),
  }),
});

export const chatChunk = named(
  "ChatChunk",
  "A chunk, the `data` of an event of a stream. The stream ends with `data: [DONE]`.",
  {
    id: head.id,
    object: tag("chat.completion.chunk"),
    created: head.created,
    model: head.model,
    service_tier: head.service_tier,
    choices: z
      .array(
        named("ChatChunkChoice", "A piece of the answer.", {
          index: z.int().describe("Always 0."),
          delta: named("ChatDelta", "What the chunk adds.", {
            role: z.literal("assistant").optional().describe("`assistant`, in the first chunk only."),
            content: z.string().optional().describe("The next piece of the text."),
            reasoning_content: z.string().optional().describe("The next piece of the reasoning."),
            tool_calls: z.array(callFragment).optional().describe("The next piece of a tool call."),
          }),
          logprobs: logprobs.nullable().describe("The log probabilities of the piece of text; null unless asked for."),
          finish_reason: finishReason.nullable().describe("Why the answer ended; null on all chunks but one."),
        }),
      )
      .describe("The piece of the answer; empty on the chunk with the usage."),
    usage: usage
      .nullable()
      .optional()
      .describe("With `include_usage`: null on all chunks but the last one, which has the usage. Else absent."),
  },
);
