import {
  type Event,
  type Finished,
  FinishReason,
  type Started,
  type Usage,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/* Canonical events with short names, for scripts and transcripts. */

export function started(fields: Partial<Started> = {}): Event {
  const value = { nodeId: "scripted", modelRevision: "scripted", inputTokens: 12, sampling: undefined, ...fields };
  return { kind: { $case: "started", value } };
}

export function progress(prefilledTokens: number): Event {
  return { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens, step: 0 } } };
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

/** Makes the event that ends a block, whole unless `complete` is false. */
export function blockEnd(index: number, complete = true): Event {
  return { kind: { $case: "blockEnded", value: { index, complete } } };
}

/** Makes the event `finished` of an answer, with `usage` and `fields` over its own. The reason is STOP by default. */
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

export function textAnswer(...pieces: readonly string[]): Event[] {
  return [started(), textStart(0), ...pieces.map((piece) => delta(0, piece)), blockEnd(0), finished()];
}
