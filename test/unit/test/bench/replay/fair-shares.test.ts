import { expect, test } from "vitest";
import { FairShares } from "../../../../bench/replay/fair-shares.ts";

test("of two sessions that want to run, the one that waits gets nothing of its half, until it runs", () => {
  let nowMs = 0;
  const shares = new FairShares(() => nowMs);
  const [runs, waits] = [shares.arrived("runs"), shares.arrived("waits")];
  runs.served(1);
  nowMs = 120_000;
  expect(shares.ratios()).toEqual([2, 0]);
  runs.finished();
  waits.served(1);
  nowMs = 180_000;
  waits.finished();
  // A minute of its share of half of two minutes, and all of one minute that was its own.
  expect(shares.ratios()).toEqual([2, 0.5]);
});

test("forgets what was before a reset, and judges nobody by less than a minute", () => {
  let nowMs = 0;
  const shares = new FairShares(() => nowMs);
  const turn = shares.arrived("a");
  turn.served(1);
  nowMs = 100_000;
  shares.reset();
  nowMs = 150_000;
  expect(shares.ratios()).toEqual([]);
  nowMs = 170_000;
  expect(shares.ratios()).toEqual([1]);
});
