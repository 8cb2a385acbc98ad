import { asWritten } from "../../../deploy/runtime/contract/broken-arguments.ts";
import { type Finished, FinishReason, type Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { parseArguments } from "../../json/json-text.ts";
import { type CompletedBlock, type Completion, shownCallId } from "../completion.ts";
import type { Head } from "../format.ts";
import type { Diagnosed, MessageUsage, ReplyBlock, Stop } from "./reply-schema.ts";

/**
 * The form in which the caller sees the model's reasoning: its text, a block without the text, or no block at all. The
 * model may reason in all three, as not every model can be kept from it.
 */
export type ThinkingDisplay = "shown" | "omitted" | "none";

/** The parts of the request that a reply repeats or depends on. */
export type Asked = {
  readonly model: string;
  readonly display: ThinkingDisplay;
  /** Whether the reply is a summary of the conversation. */
  readonly compacts: boolean;
  /** Whether the reply is to say why the cache was missed, and whether the request names the reply before. */
  readonly diagnosed: { readonly before: boolean } | undefined;
};

export function messageReply(head: Head, asked: Asked, { blocks, finished }: Completion): object {
  const content = blocks.flatMap((block) => replyBlocks(block, head, asked));
  const stop = stopOf(finished);
  const calls = content.some(({ type }) => type === "tool_use");
  return Object.assign(messageHead(head, asked), diagnosticsOf(head, asked, "at_end"), {
    content,
    ...(stop.stop_reason === "tool_use" && !calls ? END_OF_TURN : stop),
    usage: usageWithTier(finished.usage),
  });
}

const END_OF_TURN: Stop = { stop_reason: "end_turn", stop_sequence: null };

export function usageWithTier(usage: Usage | undefined) {
  return Object.assign(usageOf(usage), { service_tier: "standard" });
}

export function messageHead(head: Head, asked: Asked) {
  return { id: `msg_${head.replyId}`, type: "message", role: "assistant", model: asked.model } as const;
}

/** Reasons that are the service's own are `unavailable`: the caller's prompt had not changed. */
export function diagnosticsOf(head: Head, { diagnosed }: Asked, when: "at_start" | "at_end"): Diagnosed {
  if (!diagnosed) return {};
  const miss = head.cacheMiss();
  // The format's word for a diagnosis that is still to come.
  if (!miss && when === "at_start") return { diagnostics: { cache_miss_reason: null } };
  if (miss?.reason === "hit" || (miss?.reason === "new" && !diagnosed.before)) return { diagnostics: null };
  if (miss?.reason === "new") return { diagnostics: { cache_miss_reason: { type: "previous_message_not_found" } } };
  if (!miss?.changedPart) return { diagnostics: { cache_miss_reason: { type: "unavailable" } } };
  const type = `${miss.changedPart}_changed` as const;
  return { diagnostics: { cache_miss_reason: { type, cache_missed_input_tokens: miss.lostTokens } } };
}

/** The signature of withheld text holds it, sealed: when the block comes back, the model's reasoning is restored. */
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

/** A stop at another text, or for a reason of a newer engine, is the end of the turn. */
export function stopOf(finished: Finished): Stop {
  if (finished.reason === FinishReason.STOP_SEQUENCE && finished.matchedStop !== undefined)
    return { stop_reason: "stop_sequence", stop_sequence: finished.matchedStop };
  return { stop_reason: STOP_REASONS[finished.reason] ?? "end_turn", stop_sequence: null };
}

const STOP_REASONS: Readonly<Record<FinishReason, Stop["stop_reason"]>> = {
  [FinishReason.UNSPECIFIED]: "end_turn",
  [FinishReason.STOP]: "end_turn",
  [FinishReason.STOP_SEQUENCE]: "end_turn",
  [FinishReason.MAX_OUTPUT_TOKENS]: "max_tokens",
  [FinishReason.CONTEXT_WINDOW]: "model_context_window_exceeded",
  [FinishReason.TOOL_CALLS]: "tool_use",
  [FinishReason.CONTENT_FILTER]: "refusal",
};

/** No block of the reply is empty, except a call without arguments and a withheld thought. */
function replyBlocks(block: CompletedBlock, head: Head, asked: Asked): readonly ReplyBlock[] {
  switch (block.kind) {
    case "text":
      return block.text === "" ? [] : [{ type: "text", text: block.text }];
    case "reasoning": {
      if (block.text === "" || asked.display === "none") return [];
      const signature = signatureOf(block.text, head, asked.display);
      return [{ type: "thinking", thinking: asked.display === "omitted" ? "" : block.text, signature }];
    }
    case "toolCall": {
      const { complete, callId, name, argumentsJson } = block;
      const input = complete ? parseArguments(argumentsJson) : undefined;
      // "Calls that are not whole" in formats/README.md: `input` has to be an object, and any object would be run.
      if (input === undefined) return [{ type: "text", text: `${name} ${asWritten(argumentsJson)}`.trimEnd() }];
      return [{ type: "tool_use", id: shownCallId("toolu_", callId, head), name, input }];
    }
    default:
      return block satisfies never;
  }
}
