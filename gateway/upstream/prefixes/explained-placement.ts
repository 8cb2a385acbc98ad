import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Placement } from "../load-balancing/policy.ts";
import type { CacheNote, SentRequest } from "./cache-ledger.ts";

/**
 * Returns what follows a try as `placement` does, and has `sent` explain what the engine tells of its cache: at its
 * first sign that the prompt is read, `onNote` is told once. An engine that does not tell explains nothing.
 */
export function explained(
  placement: Pick<Placement, "see"> | undefined,
  sent: SentRequest,
  onNote: (note: CacheNote) => void,
): Pick<Placement, "see"> {
  let told = false;
  const look = (events: readonly Event[]) => {
    for (const { kind } of events) {
      // Who had to wait in the node's queue hears of its cached tokens at the end only.
      const counts = kind?.$case === "started" || kind?.$case === "finished" ? countsOf(kind) : undefined;
      if (!counts) continue;
      told = true;
      onNote(sent.measured(counts.inputTokens, counts.cachedInputTokens));
      return;
    }
  };
  return {
    see(events) {
      placement?.see(events);
      if (!told) look(events);
    },
  };
}

type Counts = { readonly inputTokens: number; readonly cachedInputTokens: number };

function countsOf(kind: Extract<Event["kind"], { $case: "started" | "finished" }>): Counts | undefined {
  if (kind.$case === "finished") return kind.value.usage;
  const { inputTokens, cachedInputTokens } = kind.value;
  return cachedInputTokens === undefined ? undefined : { inputTokens, cachedInputTokens };
}
