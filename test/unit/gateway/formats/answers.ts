import { CompletionFold } from "../../../../gateway/formats/completion.ts";
import {
  type Event,
  type Finished,
  FinishReason,
  type TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, finished, started } from "../../../support/events/events.ts";

export type Block = {
  readonly kind: "text" | "reasoning" | { readonly callId: string; readonly name: string };
  readonly deltas: readonly string[];
  /** Default: the block is whole. */
  readonly complete?: boolean;
  /** The log probabilities of the first delta. */
  readonly logprobs?: readonly TokenLogprob[];
};

export const text = (...deltas: string[]): Block => ({ kind: "text", deltas });
export const reasoning = (...deltas: string[]): Block => ({ kind: "reasoning", deltas });
export const call = (callId: string, name: string, ...deltas: string[]): Block => ({ kind: { callId, name }, deltas });

const USAGE = { inputTokens: 120, cachedInputTokens: 80, cacheWriteTokens: 16, outputTokens: 30, reasoningTokens: 7 };

/** The events of a whole answer. */
export function answer(
  blocks: readonly Block[],
  reason: FinishReason = FinishReason.STOP,
  fields: Partial<Finished> = {},
): readonly Event[] {
  const inner = blocks.flatMap(({ kind, deltas, complete, logprobs = [] }, index): Event[] => {
    const block =
      typeof kind === "string" ? ({ $case: kind, value: {} } as const) : ({ $case: "toolCall", value: kind } as const);
    return [
      { kind: { $case: "blockStarted", value: { index, block } } },
      ...deltas.map((text, at): Event => {
        const value = { index, text, logprobs: at === 0 ? [...logprobs] : [] };
        return { kind: { $case: "blockDelta", value } };
      }),
      blockEnd(index, complete),
    ];
  });
  return [started(), ...inner, finished(reason, USAGE, fields)];
}

export function folded(events: readonly Event[]) {
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  return fold.result();
}
