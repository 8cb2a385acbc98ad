import { expect, test } from "vitest";
import { evictionsWith } from "../../../../../gateway/upstream/endpoint/evictions.ts";

test("evicted prefixes were last used at the reported age", () => {
  expect(evictionsWith(undefined, 60_000, 100_000)).toEqual({ retentionMs: 60_000, usedBeforeMs: 40_000 });
});

test("kept prefixes age while the node evicts nothing", () => {
  const first = evictionsWith(undefined, 60_000, 100_000);
  expect(evictionsWith(first, 60_000, 500_000)).toEqual({ retentionMs: 60_000, usedBeforeMs: 40_000 });
  expect(evictionsWith(first, 70_000, 500_000)).toEqual({ retentionMs: 70_000, usedBeforeMs: 430_000 });
});

test("a node without a report has no evictions, whatever it reported before", () => {
  const first = evictionsWith(undefined, 60_000, 100_000);
  expect(evictionsWith(first, undefined, 200_000)).toBeUndefined();
});
