import { argumentsText } from "../../json/json-text.ts";
import { shownCallId } from "../call-id.ts";
import { type CompletedBlock, type Completion, reasoningOf, textOf } from "../completion.ts";
import type { Head } from "../format.ts";
import { finishReason } from "./finish-reason.ts";
import { chatLogprobs } from "./logprobs.ts";
import { chatUsage } from "./usage.ts";

/** The options of the request that shape its reply. */
export type ReplyOptions = {
  /** The catalog id of the model. */
  readonly model: string;
  readonly logprobs: boolean;
  /** Whether a stream ends with its usage; a folded reply always has it. */
  readonly includeUsage: boolean;
  /** Whether the request named a service tier: the reply then names the only one. */
  readonly echoServiceTier: boolean;
};

export function completionId(head: Head): string {
  return `chatcmpl-${head.replyId}`;
}

export function chatReply(head: Head, completion: Completion, options: ReplyOptions): object {
  return {
    id: completionId(head),
    object: "chat.completion",
    created: head.createdSeconds,
    model: options.model,
    choices: [
      {
        index: 0,
        message: messageOf(head, completion),
        logprobs: options.logprobs ? chatLogprobs(completion.blocks.flatMap(logprobsOf)) : null,
        finish_reason: finishReason(completion.finished.reason),
      },
    ],
    usage: chatUsage(completion.finished.usage),
    ...(options.echoServiceTier && { service_tier: "default" }),
  };
}

function messageOf(head: Head, completion: Completion) {
  const text = textOf(completion);
  const reasoning = reasoningOf(completion);
  const toolCalls = completion.blocks.flatMap((block) => toolCallOf(block, head));
  return {
    role: "assistant",
    content: text === "" && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  };
}

/** Makes the entry of a call. A truncated call is shown as far as it was generated, as in a stream. */
function toolCallOf(block: CompletedBlock, head: Head) {
  if (block.kind !== "toolCall") return [];
  const text = block.complete ? argumentsText(block.argumentsJson) : block.argumentsJson;
  const id = shownCallId("call_", block.callId, head);
  return [{ id, type: "function", function: { name: block.name, arguments: text } }];
}

function logprobsOf(block: CompletedBlock) {
  return block.kind === "text" ? block.logprobs : [];
}
