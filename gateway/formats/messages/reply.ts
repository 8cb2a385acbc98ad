import { type Finished, FinishReason, type Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { parseArguments } from "../../json/json-text.ts";
import { type CompletedBlock, type Completion, shownCallId } from "../completion.ts";
import type { Head } from "../format.ts";
import type { MessageUsage, ReplyBlock, Stop } from "./reply-schema.ts";

/**
 * The form in which the caller sees the model's reasoning: its text, a block without the text, or no block at all. The
 * model may reason in all three, as not every model can be kept from it.
 */
export type ThinkingDisplay = "shown" | "omitted" | "none";

/**
 * The parts of the request that a reply repeats or depends on: `model` is the catalog id of the model, `display` the
 * form in which the caller sees the reasoning.
 */
export type Asked = { readonly model: string; readonly display: ThinkingDisplay };

/** Makes the body of the non-streaming reply. */
export function messageReply(head: Head, asked: Asked, completion: Completion): object {
  return Object.assign(messageHead(head, asked), {
    content: completion.blocks.flatMap((block) => replyBlocks(block, head, asked)),
    ...stopOf(completion.finished),
    usage: Object.assign(usageOf(completion.finished.usage), { service_tier: "standard" }),
  });
}

/** Makes the fields of a message that are fixed from its start. */
export function messageHead(head: Head, asked: Asked) {
  return { id: `msg_${head.replyId}`, type: "message", role: "assistant", model: asked.model } as const;
}

/**
 * Returns the signature of a thinking block. If the text is withheld, the signature holds it, sealed: the caller sends
 * the block back with its next turn, which restores the model's reasoning.
 */
export function signatureOf(text: string, head: Head, display: ThinkingDisplay): string {
  return display === "omitted" ? head.sealer.seal(text) : head.sealer.sign(text);
}

/** Splits counts as the format does: its input tokens exclude those read from the cache and written to it. */
export function usageOf(usage: Usage | undefined): MessageUsage {
  const { inputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = usage ?? {};
  const { outputTokens = 0, reasoningTokens = 0 } = usage ?? {};
  return {
    input_tokens: Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens),
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedInputTokens,
    output_tokens: outputTokens,
    ...(reasoningTokens > 0 && { output_tokens_details: { thinking_tokens: reasoningTokens } }),
  };
}

/** Returns the end of a message. A stop at a text that is not one of the caller's strings is the model's own end. */
export function stopOf(finished: Finished): Stop {
  if (finished.reason === FinishReason.STOP_SEQUENCE && finished.matchedStop !== undefined)
    return { stop_reason: "stop_sequence", stop_sequence: finished.matchedStop };
  return { stop_reason: stopReason(finished.reason), stop_sequence: null };
}

function stopReason(reason: FinishReason): Stop["stop_reason"] {
  switch (reason) {
    case FinishReason.STOP:
    case FinishReason.STOP_SEQUENCE:
    case FinishReason.UNSPECIFIED:
      return "end_turn";
    case FinishReason.MAX_OUTPUT_TOKENS:
      return "max_tokens";
    case FinishReason.CONTEXT_WINDOW:
      return "model_context_window_exceeded";
    case FinishReason.TOOL_CALLS:
      return "tool_use";
    case FinishReason.CONTENT_FILTER:
      return "refusal";
    default:
      reason satisfies never; // A value of a newer engine; ending the turn is the safe reading.
      return "end_turn";
  }
}

/**
 * Makes the blocks of the reply for a block of the answer. None is empty, except a call without arguments and a
 * withheld thought.
 */
function replyBlocks(block: CompletedBlock, head: Head, asked: Asked): readonly ReplyBlock[] {
  switch (block.kind) {
    case "text":
      return block.text === "" ? [] : [{ type: "text", text: block.text }];
    case "reasoning": {
      if (block.text === "" || asked.display === "none") return [];
      const signature = signatureOf(block.text, head, asked.display);
      return [{ type: "thinking", thinking: asked.display === "omitted" ? "" : block.text, signature }];
    }
    case "toolCall":
      // A truncated call has half an object at most; the stop reason marks it as not to be run.
      return [
        {
          type: "tool_use",
          id: shownCallId("toolu_", block.callId, head),
          name: block.name,
          input: parseArguments(block.argumentsJson) ?? {},
        },
      ];
    default:
      return block satisfies never;
  }
}
