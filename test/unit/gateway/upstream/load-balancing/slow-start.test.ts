import { expect, test } from "vitest";
import { slowStartShare, slowStartWeights } from "../../../../../gateway/upstream/load-balancing/slow-start.ts";
import { balancerSettings } from "../../../../support/gateway/balancer-settings.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

const LINEAR = { windowMs: 60_000, aggression: 1, minWeightPercent: 10 };

test.each([
  ["starts at its least weight", LINEAR, 0, 0.1],
  ["grows evenly at aggression 1", LINEAR, 30_000, 0.5],
  ["is whole at the end of the window", LINEAR, 60_000, 1],
  ["stays whole", LINEAR, 600_000, 1],
  ["grows faster at the beginning at a higher aggression", { ...LINEAR, aggression: 2 }, 15_000, 0.5],
  ["counts the first second whole", { windowMs: 4_000, aggression: 1, minWeightPercent: 1 }, 10, 0.25],
  ["is never above whole in a window below a second", { windowMs: 500, aggression: 1, minWeightPercent: 1 }, 10, 1],
  ["is whole where slow start is off", { ...LINEAR, windowMs: 0 }, 0, 1],
])("an endpoint that came back %s", (_, settings, elapsedMs, expected) => {
  expect(slowStartShare(1_000, 1_000 + elapsedMs, settings)).toBeCloseTo(expected, 10);
});

test("an endpoint that was there from the beginning needs no slow start", () => {
  expect(slowStartShare(undefined, 0, balancerSettings().slowStart)).toBe(1);
});

test("the share goes on top of the weight", () => {
  const weightOf = slowStartWeights(30_000, LINEAR);
  expect(weightOf(endpointWith({ address: "e", weight: 4, healthySinceMs: 0 }))).toBeCloseTo(2, 10);
});
