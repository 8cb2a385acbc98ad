import { expect, test } from "vitest";
import { durationMs, toDuration } from "../../../../../deploy/runtime/time/clock.ts";

test.each([
  [0, { seconds: 0, nanos: 0 }],
  [1_500, { seconds: 1, nanos: 500_000_000 }],
  [0.25, { seconds: 0, nanos: 250_000 }],
  [999.9999999, { seconds: 1, nanos: 0 }],
  [86_400_000, { seconds: 86_400, nanos: 0 }],
])("%d ms as a protobuf duration", (ms, expected) => {
  expect(toDuration(ms)).toEqual(expected);
  expect(durationMs(expected)).toBeCloseTo(ms, 6);
});

test("a negative length becomes the length 0", () => {
  expect(toDuration(-5)).toEqual({ seconds: 0, nanos: 0 });
});
