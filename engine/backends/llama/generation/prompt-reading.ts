import type { GenerateResponse } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { progress, stepOf } from "../../stream-events.ts";
import type { PromptReading } from "../slots/batch-shares.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";

type ReadPrompt = {
  readonly read: number;
  readonly news: GenerateResponse | undefined;
};

/** Prefills a prompt up to the last chunk, which `Decoding` computes with the first token. Throws `EngineError`. */
export async function* readPrompt(
  parts: EngineParts,
  { demand, inputTokens }: PreparedGeneration,
  { lease, reading }: { readonly lease: SlotLease; readonly reading: PromptReading },
  from: ReadPrompt,
): AsyncGenerator<GenerateResponse, ReadPrompt, void> {
  const { prompt } = demand;
  const copyBehind = lease.slot.copyBehind(demand);
  let { read, news } = from;
  for (;;) {
    const size = reading.pieceTokens();
    const piece = prompt.slice(read, read + (read < copyBehind ? Math.min(size, copyBehind - read) : size));
    if (read + piece.length >= prompt.length) return { read, news };
    const step = lease.run(() => {
      reading.begins(piece.length, parts.clock.nowMs());
      return parts.runtime.decoder.read(lease.slot.sequence, piece);
    });
    const endMs = endOf(parts, step);
    if (news) yield news;
    reading.evaluated(await endMs);
    read += piece.length;
    if (read === copyBehind) await lease.keepCopy();
    news = stepOf([progress(0, Math.min(read, inputTokens), parts.steps.done)]);
  }
}

/** The promise may be left without a handler. */
function endOf({ clock }: EngineParts, step: Promise<unknown>): Promise<number> {
  const endMs = step.then(() => clock.nowMs());
  endMs.catch(() => {});
  return endMs;
}
