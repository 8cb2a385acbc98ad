import type { Duration } from "../../../proto/gen/google/protobuf/duration.ts";

/** Milliseconds, with fractions. */
export function durationMs({ seconds, nanos }: Duration): number {
  return seconds * 1_000 + nanos / 1e6;
}
