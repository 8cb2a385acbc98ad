import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";
import type { Event, Finished, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Placement } from "../load-balancing/policy.ts";
import type { CacheNote } from "./cache-note.ts";
import type { SentRequest } from "./sent-request.ts";

/** The inputs of explaining an attempt's cache. */
export type ExplainedOptions = {
  readonly sent: SentRequest;
  /** Called once with the explanation of the cached tokens. */
  readonly onNote: (note: CacheNote) => void;
  /** The clock of the uses of a prompt. */
  readonly clock: MonotonicClock;
};

/**
 * Returns a placement that wraps `placement`: it reports the end of prefill and answer to `sent`, and takes its
 * explanation at the engine's first report of cached tokens. An engine without such a report until the end is explained
 * by its usage.
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
    // A prompt whose prefill has only begun is not yet found in the node's cache.
    if (kind?.$case !== "blockStarted" && kind?.$case !== "blockDelta") return;
    isRead = true;
    sent.prefilled(inputTokens, clock.nowMs());
  };
  const end = ({ usage }: Finished) => {
    // A request that waited in the node's queue receives its cached tokens only at the end.
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
