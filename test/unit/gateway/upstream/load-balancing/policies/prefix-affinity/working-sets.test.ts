import { expect, test } from "vitest";
import {
  WORKING_SET_MS,
  WorkingSets,
} from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/working-sets.ts";

test("a conversation counts on its last endpoint, with its last size", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "a", 500, 1);
  sets.used("one", "b", 1_200, 2);
  expect([sets.tokensOn("a", 3), sets.tokensOn("b", 3)]).toEqual([500, 1_200]);
});

test("a conversation unused for long does not count", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "a", 500, 1_000);
  expect(sets.tokensOn("a", WORKING_SET_MS - 1)).toBe(1_500);
  expect(sets.tokensOn("a", WORKING_SET_MS)).toBe(500);
  sets.used("two", "a", 600, WORKING_SET_MS);
  expect(sets.tokensOn("a", 2 * WORKING_SET_MS - 1)).toBe(600);
});

test("an endpoint that left has no tokens", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "b", 1_000, 0);
  sets.forget("a");
  expect([sets.tokensOn("a", 0), sets.tokensOn("b", 0)]).toEqual([0, 1_000]);
});

test("the number of conversations is bounded without any read", () => {
  const sets = new WorkingSets();
  for (let at = 0; at < 1_000; at += 1) sets.used(`c${at}`, "a", 1, at * 10_000);
  expect(sets.size).toBe(30);
});
