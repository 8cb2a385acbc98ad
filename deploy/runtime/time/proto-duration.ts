/** A `google.protobuf.Duration` of the generated code: whole seconds and nanoseconds. */
export type ProtoDuration = { seconds: number; nanos: number };

/** Converts milliseconds with fractions to a protobuf duration. A negative duration becomes 0. */
export function toDuration(ms: number): ProtoDuration {
  const nanos = Math.round(Math.max(0, ms) * 1e6);
  return { seconds: Math.floor(nanos / 1e9), nanos: nanos % 1e9 };
}

/** Converts a protobuf duration to milliseconds with fractions. */
export function durationMs({ seconds, nanos }: Readonly<ProtoDuration>): number {
  return seconds * 1000 + nanos / 1e6;
}
