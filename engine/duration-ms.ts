import type { Duration } from "../proto/gen/google/protobuf/duration.ts";

/** Milliseconds as a protobuf duration; less than none is none. */
export function toDuration(ms: number): Duration {
  const nanos = Math.round(Math.max(0, ms) * 1e6);
  return { seconds: Math.floor(nanos / 1e9), nanos: nanos % 1e9 };
}

/** A protobuf duration in milliseconds. */
export function durationMs({ seconds, nanos }: Duration): number {
  return seconds * 1000 + nanos / 1e6;
}
