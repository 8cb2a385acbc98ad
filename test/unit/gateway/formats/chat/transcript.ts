import { CompletionFold } from "../../../../../gateway/formats/completion.ts";
import type { Head } from "../../../../../gateway/formats/format.ts";
import {
  type Event,
  type FinishReason,
  type TokenLogprob,
  Usage,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { PreparedAnswer } from "../../../../support/gateway/prepared-answer.ts";

/** One block of an answer: its kind and its deltas. */
export type Block = {
  readonly kind: "text" | "reasoning" | { readonly callId: string; readonly name: string };
  readonly deltas: readonly string[];
  readonly complete?: boolean;
  /** The log probabilities of the first delta. */
  readonly logprobs?: readonly TokenLogprob[];
};

const usage: Usage = Usage.fromPartial({
  inputTokens: 120,
  cachedInputTokens: 96,
  outputTokens: 30,
  reasoningTokens: 12,
});

export const started: Event = {
  kind: { $case: "started", value: { nodeId: "n", modelRevision: "r", inputTokens: 120, sampling: undefined } },
};

function finished(reason: FinishReason): Event {
  return { kind: { $case: "finished", value: { reason, usage, timings: undefined } } };
}

function blockStarted(index: number, kind: Block["kind"]): Event {
  const block =
    typeof kind === "string" ? { $case: kind, value: {} } : { $case: "toolCall" as const, value: { ...kind } };
  return { kind: { $case: "blockStarted", value: { index, block } } };
}

function blockDelta(index: number, text: string, logprobs: readonly TokenLogprob[] = []): Event {
  return { kind: { $case: "blockDelta", value: { index, text, logprobs } } };
}

function blockEnded(index: number, complete = true): Event {
  return { kind: { $case: "blockEnded", value: { index, complete } } };
}

export function transcript(blocks: readonly Block[], reason: FinishReason): readonly Event[] {
  const inner = blocks.flatMap(({ kind, deltas, complete, logprobs }, index) => [
    blockStarted(index, kind),
    ...deltas.map((text, i) => blockDelta(index, text, i === 0 ? (logprobs ?? []) : [])),
    blockEnded(index, complete),
  ]);
  return [started, ...inner, finished(reason)];
}

export function streamOf(prepared: PreparedAnswer, head: Head, events: readonly Event[]): string {
  const encoder = prepared.encoder(head);
  return events.map((event) => encoder.next(event)).join("");
}

export function replyOf(prepared: PreparedAnswer, head: Head, events: readonly Event[]): object {
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  return prepared.reply(head, fold.result());
}

/** The text of the `data:` lines, without comments. */
export function dataLines(stream: string): readonly string[] {
  return stream.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice("data: ".length)] : []));
}
