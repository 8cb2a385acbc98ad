import { expect, test } from "vitest";
import { pickRank } from "../../../../../../engine/backends/openai-compatible/kv-events/rank-pick.ts";

type Rank = readonly [cached: number, lower?: number, unread?: number, requests?: number, held?: number];

const IDLE: Rank = [0];
const cases: readonly [name: string, ranks: readonly Rank[], picked: number][] = [
  ["holds most of the prompt", [[10_000], [40_000], IDLE], 1],
  ["holds it on the accelerator rather than below it", [[40_000, 40_000], [40_000]], 1],
  ["holds it below the accelerator rather than not at all", [IDLE, [40_000, 40_000]], 1],
  ["is free, where several hold as much", [[40_000, 0, 0, 1], [40_000], [40_000, 0, 3_000, 1]], 1],
  [
    "has the least to do, where none holds more",
    [
      [0, 0, 9_000, 1],
      [0, 0, 2_000, 1],
      [0, 0, 2_000, 2],
    ],
    1,
  ],
  [
    "has the most room, where all are free",
    [
      [0, 0, 0, 0, 900_000],
      [0, 0, 0, 0, 100_000],
    ],
    1,
  ],
  ["is read elsewhere before a busy holder begins it", [[10_000, 0, 100_000, 1], IDLE], 1],
];

test.each(cases)("a prompt goes to the rank that %s", (_name, ranks, picked) => {
  const states = ranks.map(([tokens, lowerTokens = 0, unreadTokens = 0, requests = 0, heldTokens = 0]) => ({
    ...{ cached: { tokens, lowerTokens, heldTokens }, unreadTokens, requests },
  }));
  expect(pickRank(states, 50_000)).toBe(picked);
});
