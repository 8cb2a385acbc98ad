import { expect, test } from "vitest";
import { FairShares } from "../../../../bench/replay/fair-shares.ts";

test("of two sessions, the waiting one receives nothing of its half until it runs", () => {
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
  // Half of two minutes, and all of one minute alone.
  expect(shares.ratios()).toEqual([2, 0.5]);
});

test("a reset clears the account, and shares below a minute are not judged", () => {
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
