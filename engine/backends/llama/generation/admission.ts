import type { Event, GenerateRequest, Started } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { progress, started } from "../../stream-events.ts";
import type { Slot } from "../slots/slot.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";

/** How many tokens of an answer are paid for in advance, at most: how long it will be nobody knows. */
const OUTPUT_RESERVE_TOKENS = 1024;

export type Admission = {
  readonly slot: Slot;
  /** Whether `started` is out: it is when the request had to wait. */
  readonly announced: boolean;
};

/**
 * A slot for a request: at once, or after a wait with signs of life. The caller owns the slot that is returned. Throws
 * `EngineError`: QUEUE_FULL, or why the caller left.
 */
export async function* admit(
  parts: EngineParts,
  { demand, keepMs, maxOutputTokens }: PreparedGeneration,
  { tenant, priority }: GenerateRequest,
  start: Started,
  signal: AbortSignal,
): AsyncGenerator<readonly Event[], Admission, void> {
  const free = parts.queue.length === 0 ? parts.slots.take(demand) : undefined;
  if (free) return { slot: free, announced: false };
  const cost = demand.prompt.length + Math.min(maxOutputTokens, OUTPUT_RESERVE_TOKENS);
  const waiting = { demand, uncachedTokens: parts.slots.uncachedTokens(demand) };
  const ticket = parts.queue.join(waiting, { tenant, priority, cost }, signal);
  let taken: Slot | undefined;
  try {
    yield [started(start), progress(ticket.position, 0, parts.queue.beats)];
    for (;;) {
      const news = await ticket.next();
      if (news.kind === "granted") {
        taken = news.grant;
        return { slot: taken, announced: true };
      }
      yield [progress(news.position, 0, parts.queue.beats)];
    }
  } finally {
    const granted = ticket.close();
    if (granted && !taken) parts.slots.release(granted, keepMs);
  }
}
