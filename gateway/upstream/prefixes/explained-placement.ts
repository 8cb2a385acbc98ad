import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";
import type { Event, Finished, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Placement } from "../load-balancing/policy.ts";
import type { CacheNote } from "./cache-note.ts";
import type { SentRequest } from "./sent-request.ts";

/** What explaining the cache of a try takes. */
export type ExplainedOptions = {
  /** The request, as it was sent. */
  readonly sent: SentRequest;
  /** Told once what was cached, and why not more. */
  readonly onNote: (note: CacheNote) => void;
  /** The clock by which it is remembered when a prompt was used. */
  readonly clock: MonotonicClock;
};

/**
 * Returns what follows a try as `placement` does, tells `sent` when the prompt is read and when its answer has ended, and
 * has it explain what the engine tells of its cache, at its first word of it. An engine that tells nothing of that until the
 * end is explained by its usage.
 */
export function explained(
  placement: Pick<Placement, "see"> | undefined,
  { sent, onNote, clock }: ExplainedOptions,
): Pick<Placement, "see"> {
  let isTold = false;
  let isRead = false;
  let inputTokens = 0;
  const tell = (counts: Counts | undefined) => {
    if (isTold || !counts) return;
    isTold = true;
    onNote(sent.measured(counts.inputTokens, counts.cachedInputTokens));
  };
  const look = ({ kind }: Event) => {
    if (kind?.$case === "started") {
      inputTokens = kind.value.inputTokens;
      tell(countsOf(kind.value));
    }
    // What a node has only begun to read, nobody finds in its cache.
    if (kind?.$case !== "blockStarted" && kind?.$case !== "blockDelta") return;
    isRead = true;
    sent.prefilled(inputTokens, clock.nowMs());
  };
  const end = ({ usage }: Finished) => {
    // Who had to wait in the node's queue hears of its cached tokens at the end only.
    tell(usage);
    if (usage) sent.answered(usage, clock.nowMs());
  };
  return {
    see(events) {
      placement?.see(events);
      if (!isRead) for (const event of events) look(event);
      const last = events.at(-1)?.kind;
      if (last?.$case === "finished") end(last.value);
    },
  };
}

type Counts = { readonly inputTokens: number; readonly cachedInputTokens: number };

function countsOf({ inputTokens, cachedInputTokens }: Started): Counts | undefined {
  return cachedInputTokens === undefined ? undefined : { inputTokens, cachedInputTokens };
}
