import { toDuration } from "../../deploy/runtime/time/proto-duration.ts";
import type {
  Event,
  Finished,
  GenerateResponse,
  Started,
  Timings,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";

/** Makes what one step of an engine produced: its events, and the tokens behind them. Default: no tokens. */
export function stepOf(events: readonly Event[], tokens: readonly number[] = []): GenerateResponse {
  return { events, tokens };
}

/** Returns one delta for two of a block that follow each other; undefined where they are something else. */
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

/** Makes a `started` event. */
export function started(value: Started): Event {
  return { kind: { $case: "started", value } };
}

/** Makes a `progress` event. `step` differs from that of the event before when the engine has worked since. */
export function progress(queuePosition: number, prefilledTokens: number, step: number): Event {
  return { kind: { $case: "progress", value: { queuePosition, prefilledTokens, step } } };
}

/** Makes a `finished` event. */
export function finished(value: Finished): Event {
  return { kind: { $case: "finished", value } };
}

/**
 * The times of a generation in milliseconds. `queueMs` is absent where the wait cannot be told from the prefill, which
 * then holds both.
 */
export type PhaseTimes = { readonly queueMs?: number; readonly prefillMs: number; readonly decodeMs: number };

/** Makes the timings of a `finished` event. */
export function timings({ queueMs, prefillMs, decodeMs }: PhaseTimes): Timings {
  return {
    queue: queueMs === undefined ? undefined : toDuration(queueMs),
    prefill: toDuration(prefillMs),
    decode: toDuration(decodeMs),
  };
}
