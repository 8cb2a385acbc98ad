import type { GenerateResponse } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { progress, stepOf } from "../../stream-events.ts";
import type { PromptReading } from "../slots/batch-shares.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";

/** How far a prompt is read. */
type ReadPrompt = {
  /** The tokens of it that are in the cache. */
  readonly read: number;
  /** What is to be told of it while the engine is at what follows; undefined where all is told. */
  readonly news: GenerateResponse | undefined;
};

/**
 * Reads a prompt in pieces, from where it is read already up to the last piece, which brings the first token and is left to
 * whoever makes that. What is said of the prompt so far goes out while the engine is at the next piece of it. Where the cache
 * cannot be cut, a copy is kept of it where the next turn will go on. Throws `EngineError`.
 */
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

/** Resolves to the moment at which a step ends, in milliseconds of the clock. Whoever leaves need not await it. */
function endOf({ clock }: EngineParts, step: Promise<unknown>): Promise<number> {
  const endMs = step.then(() => clock.nowMs());
  endMs.catch(() => {});
  return endMs;
}
