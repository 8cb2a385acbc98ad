import {
  type Event,
  FinishReason,
  type TokenLogprob,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";

export type Block =
  | { readonly kind: "text" | "reasoning"; readonly deltas: readonly string[]; readonly cut?: boolean }
  | {
      readonly kind: "toolCall";
      readonly callId: string;
      readonly name: string;
      readonly deltas: readonly string[];
      readonly cut?: boolean;
    };

export const started: Event = {
  kind: { $case: "started", value: { nodeId: "n", modelRevision: "r", inputTokens: 11, sampling: undefined } },
};

export function blockStarted(index: number, block: Block): Event {
  const value =
    block.kind === "toolCall"
      ? ({ $case: "toolCall", value: { callId: block.callId, name: block.name } } as const)
      : ({ $case: block.kind, value: {} } as const);
  return { kind: { $case: "blockStarted", value: { index, block: value } } };
}

export function delta(index: number, text: string, logprobs: readonly TokenLogprob[] = []): Event {
  return { kind: { $case: "blockDelta", value: { index, text, logprobs } } };
}

export function blockEnded(index: number, complete = true): Event {
  return { kind: { $case: "blockEnded", value: { index, complete } } };
}

export function finished(reason: FinishReason = FinishReason.STOP): Event {
  const usage = { inputTokens: 11, cachedInputTokens: 4, cacheWriteTokens: 2, outputTokens: 7, reasoningTokens: 3 };
  return { kind: { $case: "finished", value: { reason, usage, timings: undefined } } };
}

/** A whole answer; the last block may be truncated. */
export function answer(blocks: readonly Block[], reason: FinishReason = FinishReason.STOP): readonly Event[] {
  return [
    started,
    ...blocks.flatMap((block, index) => [
      blockStarted(index, block),
      ...block.deltas.map((text) => delta(index, text)),
      blockEnded(index, !block.cut),
    ]),
    finished(reason),
  ];
}

export const text = (...deltas: string[]): Block => ({ kind: "text", deltas });
export const reasoning = (...deltas: string[]): Block => ({ kind: "reasoning", deltas });
export const call = (callId: string, name: string, ...deltas: string[]): Block => ({
  kind: "toolCall",
  callId,
  name,
  deltas,
});
export const cut = (block: Block): Block => ({ ...block, cut: true });
