import {
  type Event,
  type Finished,
  FinishReason,
  type Started,
  type Usage,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/* Canonical events in a word each, for scripts and transcripts. */

export function started(fields: Partial<Started> = {}): Event {
  const value = { nodeId: "scripted", modelRevision: "r1", inputTokens: 12, ...fields };
  return { kind: { $case: "started", value } };
}

export function textStart(index: number): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "text", value: {} } } } };
}

export function reasoningStart(index: number): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "reasoning", value: {} } } } };
}

export function toolCallStart(index: number, name: string, callId = `call_${index}`): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "toolCall", value: { callId, name } } } } };
}

export function delta(index: number, text: string): Event {
  return { kind: { $case: "blockDelta", value: { index, text, logprobs: [] } } };
}

export function blockEnd(index: number, complete = true): Event {
  return { kind: { $case: "blockEnded", value: { index, complete } } };
}

export function finished(
  reason: FinishReason = FinishReason.STOP,
  usage: Partial<Usage> = {},
  fields: Partial<Finished> = {},
): Event {
  const counts = { inputTokens: 12, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 7, reasoningTokens: 0 };
  return {
    kind: { $case: "finished", value: { reason, usage: { ...counts, ...usage }, timings: undefined, ...fields } },
  };
}

/** Returns the events of a whole answer of one text block, one delta for each piece. */
export function textAnswer(...pieces: readonly string[]): Event[] {
  return [started(), textStart(0), ...pieces.map((piece) => delta(0, piece)), blockEnd(0), finished()];
}
