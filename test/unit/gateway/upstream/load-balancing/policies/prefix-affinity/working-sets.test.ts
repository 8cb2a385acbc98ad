import { describe, expect, test } from "vitest";
import {
  WORKING_SET_MS,
  WorkingSets,
} from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/working-sets.ts";

test("a conversation counts where it was last, as large as it was then", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "a", 500, 1);
  sets.used("one", "b", 1_200, 2);
  expect([sets.tokensOn("a", 3), sets.tokensOn("b", 3)]).toEqual([500, 1_200]);
});

test("a conversation that was not used for long does not count", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "a", 500, 1_000);
  expect(sets.tokensOn("a", WORKING_SET_MS - 1)).toBe(1_500);
  expect(sets.tokensOn("a", WORKING_SET_MS)).toBe(500);
  sets.used("two", "a", 600, WORKING_SET_MS);
  expect(sets.tokensOn("a", 2 * WORKING_SET_MS - 1)).toBe(600);
});

test("an endpoint that left has nothing", () => {
  const sets = new WorkingSets();
  sets.used("one", "a", 1_000, 0);
  sets.used("two", "b", 1_000, 0);
  sets.forget("a");
  expect([sets.tokensOn("a", 0), sets.tokensOn("b", 0)]).toEqual([0, 1_000]);
});

describe("gateways before the same endpoints", () => {
  /** Has one tell another, whose clock is the same. */
  const tell = (from: WorkingSets, to: WorkingSets, nowMs: number) => to.hear(from.tell(nowMs), nowMs);

  test("count what each of them placed, a conversation where it was last", () => {
    const [one, other] = [new WorkingSets(), new WorkingSets()];
    one.used("x", "a", 1_000, 0);
    one.used("y", "a", 500, 1_000);
    other.used("y", "b", 700, 2_000);
    tell(one, other, 3_000);
    tell(other, one, 3_000);
    for (const sets of [one, other])
      expect([sets.tokensOn("a", 3_000), sets.tokensOn("b", 3_000)]).toEqual([1_000, 700]);
  });

  test("count once what they are told several times, for as long after its use as their own", () => {
    const [one, other] = [new WorkingSets(), new WorkingSets()];
    one.used("x", "a", 1_000, 0);
    for (const nowMs of [1_000, 3_000, 5_000]) tell(one, other, nowMs);
    expect(other.tokensOn("a", WORKING_SET_MS - 1)).toBe(1_000);
    expect(other.tokensOn("a", WORKING_SET_MS)).toBe(0);
  });

  test("remember no more of what they are told than counts, though nobody asks", () => {
    const sets = new WorkingSets();
    for (let at = 0; at < 1_000; at += 1)
      sets.hear([{ conversation: `c${at}`, address: "a", tokens: 1, ageMs: 0 }], at * 10_000);
    expect(sets.size).toBe(30);
  });

  test("tell what they placed themselves and of late, so many at most", () => {
    const [one, other] = [new WorkingSets(), new WorkingSets()];
    one.used("old", "a", 1, 0);
    for (let at = 0; at < 300; at += 1) one.used(`c${at}`, "a", 1, 1_000);
    expect(one.tell(31_000)).toHaveLength(128);
    expect(one.tell(31_000).at(0)).toEqual({ conversation: "c299", address: "a", tokens: 1, ageMs: 30_000 });
    expect(one.tell(31_001)).toEqual([]);
    tell(one, other, 2_000);
    other.used("own", "b", 2, 2_000);
    expect(other.tell(2_000).map(({ conversation }) => conversation)).toEqual(["own"]);
  });

  test("know whether they are told anything", () => {
    const sets = new WorkingSets();
    sets.hear([], 0);
    expect(sets.isShared(0)).toBe(false);
    sets.hear([{ conversation: "c", address: "a", tokens: 1, ageMs: 0 }], 1_000);
    expect([sets.isShared(16_000), sets.isShared(16_001)]).toEqual([true, false]);
  });
});
