import { expect, test } from "vitest";
import { evictionsWith } from "../../../../../gateway/upstream/endpoint/evictions.ts";

test("what a node evicts was used as long ago as it says", () => {
  expect(evictionsWith(undefined, 60_000, 100_000)).toEqual({ retentionMs: 60_000, usedBeforeMs: 40_000 });
});

test("what is kept grows older while the node evicts nothing", () => {
  const first = evictionsWith(undefined, 60_000, 100_000);
  expect(evictionsWith(first, 60_000, 500_000)).toEqual({ retentionMs: 60_000, usedBeforeMs: 40_000 });
  expect(evictionsWith(first, 70_000, 500_000)).toEqual({ retentionMs: 70_000, usedBeforeMs: 430_000 });
});

test("nothing is known of a node that says nothing, whatever it said before", () => {
  const first = evictionsWith(undefined, 60_000, 100_000);
  expect(evictionsWith(first, undefined, 200_000)).toBeUndefined();
});
