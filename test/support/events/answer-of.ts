import type { Event, Finished, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

export type AnswerBlock = {
  kind: "text" | "reasoning" | "toolCall";
  id?: string;
  name?: string;
  /** The deltas of the block, joined: text, or the JSON of arguments. */
  text: string;
  /** Whether the block ended whole; false while it is open. */
  complete: boolean;
};

/** Returns the blocks of canonical events, and the events around them. */
export function answerOf(events: readonly Event[]): {
  readonly started: Started | undefined;
  readonly blocks: readonly AnswerBlock[];
  readonly finished: Finished | undefined;
} {
  const blocks: AnswerBlock[] = [];
  let started: Started | undefined;
  let finished: Finished | undefined;
  for (const { kind } of events) {
    const open = blocks.at(-1);
    if (kind?.$case === "started") started = kind.value;
    else if (kind?.$case === "finished") finished = kind.value;
    else if (kind?.$case === "blockStarted" && kind.value.block) {
      const { block } = kind.value;
      const call = block.$case === "toolCall" ? { id: block.value.callId, name: block.value.name } : {};
      blocks.push({ kind: block.$case, ...call, text: "", complete: false });
    } else if (kind?.$case === "blockDelta" && open) open.text += kind.value.text;
    else if (kind?.$case === "blockEnded" && open) open.complete = kind.value.complete;
  }
  return { started, blocks, finished };
}
