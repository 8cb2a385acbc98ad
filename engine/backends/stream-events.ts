import { toDuration } from "../../deploy/runtime/time/clock.ts";
import type {
  Event,
  Finished,
  GenerateResponse,
  Started,
  Timings,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";

export function stepOf(events: readonly Event[], tokens: readonly number[] = []): GenerateResponse {
  return { events, tokens };
}

/** Joins two adjacent deltas of one block; undefined for other events. */
export function joinedDelta({ kind: first }: Event, { kind: second }: Event): Event | undefined {
  if (first?.$case !== "blockDelta" || second?.$case !== "blockDelta") return undefined;
  const { index, text, logprobs } = first.value;
  if (index !== second.value.index) return undefined;
  const value = {
    index,
    text: text + second.value.text,
    logprobs: second.value.logprobs.length === 0 ? logprobs : [...logprobs, ...second.value.logprobs],
  };
  return { kind: { $case: "blockDelta", value } };
}

export function started(value: Started): Event {
  return { kind: { $case: "started", value } };
}

/** Creates a `progress` event. `step` differs from that of the previous event if the engine has worked since. */
export function progress(queuePosition: number, prefilledTokens: number, step: number): Event {
  return { kind: { $case: "progress", value: { queuePosition, prefilledTokens, step } } };
}

export function finished(value: Finished): Event {
  return { kind: { $case: "finished", value } };
}

/**
 * The durations of a generation's phases, in milliseconds. `queueMs` is absent if it cannot be separated from the
 * prefill, which then includes it.
 */
export type PhaseTimes = { readonly queueMs?: number; readonly prefillMs: number; readonly decodeMs: number };

export function timings({ queueMs, prefillMs, decodeMs }: PhaseTimes): Timings {
  return {
    queue: queueMs === undefined ? undefined : toDuration(queueMs),
    prefill: toDuration(prefillMs),
    decode: toDuration(decodeMs),
  };
}
