import { expect, test } from "vitest";
import { RememberedMembers } from "../../../../../gateway/upstream/cluster/remembered-members.ts";

const HOUR_MS = 3_600_000;

type Change = readonly [members: number, joined: number, announced: number];

function after(...changes: readonly Change[]) {
  let nowMs = 0;
  const remembered = new RememberedMembers({ nowMs: () => nowMs });
  for (const change of changes) remembered.changed(...change);
  return {
    counts: () => [remembered.lost, remembered.left],
    hours: (hours: number) => {
      nowMs += hours * HOUR_MS;
    },
  };
}

test.each<readonly [string, readonly Change[], readonly [lost: number, left: number]]>([
  [
    "nothing is lost where members only join",
    [
      [3, 3, 0],
      [4, 1, 0],
    ],
    [0, 0],
  ],
  [
    "a member that left unannounced is lost",
    [
      [3, 3, 0],
      [2, 0, 0],
    ],
    [1, 0],
  ],
  [
    "so is each further one",
    [
      [3, 3, 0],
      [2, 0, 0],
      [1, 0, 0],
    ],
    [2, 0],
  ],
  [
    "it is lost no longer when another joins",
    [
      [3, 3, 0],
      [2, 0, 0],
      [3, 1, 0],
    ],
    [0, 0],
  ],
  [
    "a member that left as announced is not",
    [
      [3, 3, 0],
      [2, 0, 1],
    ],
    [0, 1],
  ],
  [
    "its replacement fills its place",
    [
      [3, 3, 0],
      [2, 0, 1],
      [3, 1, 0],
    ],
    [0, 0],
  ],
  [
    "a fleet that shrank owes its new size",
    [
      [3, 3, 0],
      [2, 0, 1],
      [1, 0, 0],
      [2, 1, 0],
    ],
    [0, 0],
  ],
  [
    "members that are replaced at once are not missed",
    [
      [3, 3, 0],
      [3, 3, 0],
    ],
    [0, 0],
  ],
])("%s", (_what, changes, counts) => {
  expect(after(...changes).counts()).toEqual(counts);
});

test("a lost member is remembered for good, one that left as announced for two hours", () => {
  const { counts, hours } = after([4, 4, 0], [3, 0, 0], [2, 0, 1]);
  expect(counts()).toEqual([1, 1]);
  hours(1.9);
  expect(counts()).toEqual([1, 1]);
  hours(100);
  expect(counts()).toEqual([1, 0]);
});
