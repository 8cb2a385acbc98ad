import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ChatFinishReason } from "./reply-schema.ts";

const REASONS: Readonly<Record<FinishReason, ChatFinishReason>> = {
  [FinishReason.UNSPECIFIED]: "stop",
  [FinishReason.STOP]: "stop",
  [FinishReason.STOP_SEQUENCE]: "stop",
  [FinishReason.MAX_OUTPUT_TOKENS]: "length",
  [FinishReason.CONTEXT_WINDOW]: "length",
  [FinishReason.TOOL_CALLS]: "tool_calls",
  [FinishReason.CONTENT_FILTER]: "content_filter",
};

/**
 * Returns the `finish_reason` of an answer. An unknown reason, from a newer engine, becomes `stop`, which ends the
 * turn.
 */
export function finishReason(reason: FinishReason): ChatFinishReason {
  return REASONS[reason] ?? "stop";
}
