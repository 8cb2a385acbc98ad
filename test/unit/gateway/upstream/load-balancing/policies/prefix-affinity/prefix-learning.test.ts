import { describe, expect, test } from "vitest";
import { PlacementMap } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/placement-map.ts";
import {
  type Placed,
  PrefixLearning,
} from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-learning.ts";
import { endpointWith } from "../../../../../../support/gateway/upstream/endpoint-with.ts";

const SHAPE = {
  boundaries: [
    { hash: "head", bytes: 4_000, marked: false },
    { hash: "turn", bytes: 8_000, marked: false },
  ],
  lastTurn: undefined,
};

function learner() {
  const placements = new PlacementMap();
  return { placements, learning: new PrefixLearning(placements) };
}

function placed(placements: PlacementMap, nowMs: number): Placed {
  const belief = placements.holders("turn", nowMs)[0];
  const prediction = { tokens: 2_000, uncachedTokens: 0, belief };
  return { shape: SHAPE, conversation: "c", address: "a", prediction, ttlMs: 60_000 };
}

const believed = (placements: PlacementMap, hash: string, nowMs: number) =>
  placements.holders(hash, nowMs).map(({ address, tokens, confirmed }) => ({ address, tokens, confirmed }));

describe("a prompt on its way", () => {
  test("is expected at its endpoint at once", () => {
    const { placements, learning } = learner();
    learning.dispatched(placed(placements, 0), 0);
    expect(believed(placements, "turn", 0)).toEqual([{ address: "a", tokens: 2_000, confirmed: false }]);
  });

  test("is no longer expected there when it was never prefilled", () => {
    const { placements, learning } = learner();
    learning.dispatched(placed(placements, 0), 0);
    learning.abandoned(placed(placements, 0));
    expect(believed(placements, "turn", 0)).toEqual([]);
  });
});

describe("a prefilled prompt", () => {
  test("has the length that the engine measured", () => {
    const { placements, learning } = learner();
    learning.prefilled(placed(placements, 0), { inputTokens: 3_000, cachedInputTokens: 0 }, 0);
    expect(believed(placements, "head", 0)).toEqual([{ address: "a", tokens: 1_500, confirmed: true }]);
    expect(believed(placements, "turn", 0)).toEqual([{ address: "a", tokens: 3_000, confirmed: true }]);
  });

  test("moves the measured tokens per byte slowly", () => {
    const { placements, learning } = learner();
    expect(learning.tokensPerByte).toBe(0.25);
    for (let turn = 0; turn < 200; turn += 1) {
      learning.prefilled(placed(placements, turn), { inputTokens: 4_000, cachedInputTokens: undefined }, turn);
    }
    expect(learning.tokensPerByte).toBeCloseTo(0.5, 3);
  });

  test.each([
    ["as expected", 1_900, true],
    ["at least half of it", 1_000, true],
    ["far less", 100, false],
    ["unsaid", undefined, true],
  ])("with %s of it cached: older prefixes there are believed: %#", (_, cachedInputTokens, stillBelieved) => {
    const { placements, learning } = learner();
    const older = { ...SHAPE, boundaries: [{ hash: "older", bytes: 100, marked: false }] };
    learning.prefilled({ ...placed(placements, 0), shape: older }, { inputTokens: 25, cachedInputTokens: 0 }, 0);
    learning.prefilled(placed(placements, 10), { inputTokens: 2_000, cachedInputTokens: 0 }, 10);
    const again = placed(placements, 20);
    learning.dispatched(again, 20);
    learning.prefilled(again, { inputTokens: 2_000, cachedInputTokens }, 30);
    expect(believed(placements, "older", 40)).toHaveLength(stillBelieved ? 1 : 0);
    expect(believed(placements, "turn", 40)).toHaveLength(1);
  });

  test("refutes nothing by a miss where it was only on its way", () => {
    const { placements, learning } = learner();
    const older = { ...SHAPE, boundaries: [{ hash: "older", bytes: 100, marked: false }] };
    learning.prefilled({ ...placed(placements, 0), shape: older }, { inputTokens: 25, cachedInputTokens: 0 }, 0);
    learning.dispatched(placed(placements, 10), 10);
    const sibling = placed(placements, 11);
    learning.prefilled(sibling, { inputTokens: 2_000, cachedInputTokens: 0 }, 12);
    expect(believed(placements, "older", 20)).toHaveLength(1);
  });

  test("is not measured by an answer without tokens", () => {
    const { placements, learning } = learner();
    learning.prefilled(placed(placements, 0), { inputTokens: 0, cachedInputTokens: undefined }, 0);
    expect(learning.tokensPerByte).toBe(0.25);
  });
});

describe("the likelihood that other gateways place conversations", () => {
  const looks = (activeRequests: number, running: number) => {
    const { learning } = learner();
    for (let look = 0; look < 200; look += 1) {
      // Reports lag a little.
      const drift = look % 3;
      learning.looked([endpointWith({ address: "a", activeRequests: activeRequests + drift, running, waiting: 1 })]);
    }
    return learning.strangers;
  };

  test("is 1 before enough requests were counted", () => {
    expect(learner().learning.strangers).toBe(1);
  });

  test("follows the share of other gateways' requests on the endpoints", () => {
    expect(looks(9, 9)).toBe(0);
    expect(looks(4, 9)).toBe(1);
    expect(looks(2, 11)).toBe(1);
  });
});

test("the mean length of answers follows the measured ones", () => {
  const { learning } = learner();
  for (let answer = 0; answer < 200; answer += 1) learning.answered(2_000);
  expect(learning.answerTokens).toBeCloseTo(2_000, -1);
});
