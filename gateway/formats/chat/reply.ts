import {
  type AlternativeLogprob,
  FinishReason,
  type TokenLogprob,
  Usage,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { argumentsText } from "../../json/json-text.ts";
import { type CompletedBlock, type Completion, shownCallId, textOf } from "../completion.ts";
import type { Head } from "../format.ts";
import type { ChatFinishReason } from "./reply-schema.ts";

export type ReplyOptions = {
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
        logprobs: options.logprobs
          ? chatLogprobs(completion.blocks.flatMap((block) => (block.kind === "text" ? block.logprobs : [])))
          : null,
        finish_reason: finishReason(completion.finished.reason),
      },
    ],
    usage: chatUsage(completion.finished.usage),
    ...(options.echoServiceTier && { service_tier: "default" }),
  };
}

function messageOf(head: Head, completion: Completion) {
  const text = textOf(completion);
  const reasoning = textOf(completion, "reasoning");
  const toolCalls = completion.blocks.flatMap((block) => toolCallOf(block, head));
  return {
    role: "assistant",
    content: text === "" && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  };
}

/** A cut or broken call is shown as it was generated, as in a stream. */
function toolCallOf(block: CompletedBlock, head: Head) {
  if (block.kind !== "toolCall") return [];
  const text = block.complete ? argumentsText(block.argumentsJson) : block.argumentsJson;
  const id = shownCallId("call_", block.callId, head);
  return [{ id, type: "function", function: { name: block.name, arguments: text } }];
}

const REASONS: Readonly<Record<FinishReason, ChatFinishReason>> = {
  [FinishReason.UNSPECIFIED]: "stop",
  [FinishReason.STOP]: "stop",
  [FinishReason.STOP_SEQUENCE]: "stop",
  [FinishReason.MAX_OUTPUT_TOKENS]: "length",
  [FinishReason.CONTEXT_WINDOW]: "length",
  [FinishReason.TOOL_CALLS]: "tool_calls",
  [FinishReason.CONTENT_FILTER]: "content_filter",
};

/** An unknown reason, from a newer engine, becomes `stop`, which ends the turn. */
export function finishReason(reason: FinishReason): ChatFinishReason {
  return REASONS[reason] ?? "stop";
}

/** The logarithm of zero, which JSON cannot represent. */
const LOWEST = -9999;

export function chatLogprobs(tokens: readonly TokenLogprob[]) {
  if (tokens.length === 0) return null;
  return {
    content: tokens.map((token) => ({ ...entry(token), top_logprobs: token.alternatives.map(entry) })),
    refusal: null,
  };
}

function entry(token: AlternativeLogprob) {
  return {
    token: token.token,
    logprob: Math.max(token.logprob, LOWEST),
    bytes: token.tokenBytes.length > 0 ? [...token.tokenBytes] : null,
  };
}

/** Makes the `usage` object ("Token counts" in formats/README.md); an absent message means zeros, as in proto3. */
export function chatUsage(usage: Usage = Usage.create()) {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedInputTokens, cache_write_tokens: usage.cacheWriteTokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  };
}
