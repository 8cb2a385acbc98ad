import { expect, test } from "vitest";
import {
  SLOW_START_MS,
  slowStartShare,
  slowStartWeights,
} from "../../../../../gateway/upstream/load-balancing/slow-start.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

test.each([
  ["starts at its least weight", 0, 0.1],
  ["grows evenly", SLOW_START_MS / 2, 0.5],
  ["is whole at the end of the window", SLOW_START_MS, 1],
  ["stays whole", 20 * SLOW_START_MS, 1],
])("an endpoint that came back %s", (_, elapsedMs, expected) => {
  expect(slowStartShare(1_000, 1_000 + elapsedMs)).toBeCloseTo(expected, 10);
});

test("an endpoint available from the beginning has no slow start", () => {
  expect(slowStartShare(undefined, 0)).toBe(1);
});

test("the share multiplies the weight", () => {
  const weightOf = slowStartWeights(SLOW_START_MS / 2);
  expect(weightOf(endpointWith({ address: "e", weight: 4, healthySinceMs: 0 }))).toBeCloseTo(2, 10);
});
