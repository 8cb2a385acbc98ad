import { describe, expect, test } from "vitest";
import { PlacementMap } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/placement-map.ts";
import { PrefixLearning } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-learning.ts";
import { PrefixPlacement } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-placement.ts";
import { WorkLedger } from "../../../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import type { Timings } from "../../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { delta, finished, progress, started } from "../../../../../../support/events/events.ts";
import { VirtualClock } from "../../../../../../support/virtual-clock.ts";

const ADDRESS = "127.0.0.1:1";
const SHAPE = { boundaries: [{ hash: "h", bytes: 4_000, marked: false }], lastTurn: undefined };

function placed() {
  const placements = new PlacementMap();
  const learning = new PrefixLearning(placements);
  const work = new WorkLedger();
  const prediction = { tokens: 1_000, uncachedTokens: 1_000, belief: undefined };
  const placement = new PrefixPlacement(
    { shape: SHAPE, conversation: "c", address: ADDRESS, prediction, ttlMs: 60_000 },
    learning,
    work,
    new VirtualClock(),
  );
  const believed = () => placements.holders("h", 0).find(({ address }) => address === ADDRESS);
  return { placement, work, learning, believed };
}

describe("outstanding work on an endpoint", () => {
  test("follows the engine's events, from the estimate to the first delta", () => {
    const { placement, work } = placed();
    expect(work.outstanding(ADDRESS)).toBe(0);
    placement.begin();
    expect(work.outstanding(ADDRESS)).toBe(1_000);
    placement.see([started({ inputTokens: 900, cachedInputTokens: 100 })]);
    expect(work.outstanding(ADDRESS)).toBe(800);
    placement.see([progress(600)]);
    expect(work.outstanding(ADDRESS)).toBe(300);
    placement.see([delta(0, "a")]);
    expect(work.outstanding(ADDRESS)).toBe(0);
    placement.end();
    expect(work.outstanding(ADDRESS)).toBe(0);
  });

  test("is removed once when an attempt ends during its prefill", () => {
    const { placement, work } = placed();
    placement.begin();
    placement.see([started({ inputTokens: 900 })]);
    placement.end();
    placement.end();
    expect(work.outstanding(ADDRESS)).toBe(0);
  });
});

describe("prefill speed of an endpoint", () => {
  const timings = { queue: { seconds: 5, nanos: 0 }, prefill: { seconds: 0, nanos: 500_000_000 }, decode: undefined };
  const ended = (times: Timings) =>
    finished(undefined, { inputTokens: 2_000, cachedInputTokens: 1_000 }, { timings: times });

  test("is measured by the engine's timings, without cached tokens and queue time", () => {
    const { placement, work } = placed();
    placement.begin();
    placement.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
    expect(work.speed(ADDRESS)).toBeUndefined();
    placement.see([delta(0, "b"), ended(timings)]);
    expect(work.speed(ADDRESS)).toBe(2_000);
  });

  test("is not measured where the engine does not separate queue time", () => {
    const { placement, work } = placed();
    placement.begin();
    placement.see([started({ inputTokens: 2_000 }), delta(0, "a"), ended({ ...timings, queue: undefined })]);
    expect(work.speed(ADDRESS)).toBeUndefined();
  });
});

describe("belief about a cache", () => {
  test("a prefilled prompt is cached, with the tokens that the engine counted", () => {
    const { placement, learning, believed } = placed();
    placement.begin();
    expect(believed()?.confirmed).toBe(false);
    placement.see([started({ inputTokens: 2_000, cachedInputTokens: 0 })]);
    placement.see([finished()]);
    expect(believed()?.confirmed).toBe(true);
    // 2,000 tokens in 4,000 bytes: half a token per byte, where a quarter was the estimate.
    expect(learning.tokensPerByte).toBeGreaterThan(0.25);
    placement.end();
    expect(believed()?.confirmed).toBe(true);
  });

  test("an attempt that ended before its first delta leaves nothing cached", () => {
    const { placement, believed } = placed();
    placement.begin();
    placement.end();
    expect(believed()).toBeUndefined();
  });
});
