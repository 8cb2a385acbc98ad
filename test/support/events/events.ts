import {
  type Event,
  type Finished,
  FinishReason,
  type Started,
  type Usage,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/* Canonical events with short names, for scripts and transcripts. */

/** Makes the event `started` of an answer, with `fields` over its own. */
export function started(fields: Partial<Started> = {}): Event {
  const value = { nodeId: "scripted", modelRevision: "scripted", inputTokens: 12, sampling: undefined, ...fields };
  return { kind: { $case: "started", value } };
}

/** Makes the event `progress` with the number of prefilled tokens, cached ones included. */
export function progress(prefilledTokens: number): Event {
  return { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens, step: 0 } } };
}

/** Makes the event that starts a text block. */
export function textStart(index: number): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "text", value: {} } } } };
}

/** Makes the event that starts a reasoning block. */
export function reasoningStart(index: number): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "reasoning", value: {} } } } };
}

/** Makes the event that starts the block of a tool call. */
export function toolCallStart(index: number, name: string, callId = `call_${index}`): Event {
  return { kind: { $case: "blockStarted", value: { index, block: { $case: "toolCall", value: { callId, name } } } } };
}

/** Makes the event with a piece of the text of a block. */
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

/** Returns the events of a whole answer of one text block, one delta for each piece. */
export function textAnswer(...pieces: readonly string[]): Event[] {
  return [started(), textStart(0), ...pieces.map((piece) => delta(0, piece)), blockEnd(0), finished()];
}
