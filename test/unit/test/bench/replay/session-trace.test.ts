import { expect, test } from "vitest";
import { readSessions } from "../../../../bench/replay/session-trace.ts";

type Turn = { ids: readonly (number | readonly [number, number])[]; in: number; out: number };

function session(requests: readonly Turn[], toolTokens = 6_000): string {
  const turns = requests.map((turn) => ({ ...turn, think_time: 1, stop: "tool_use" }));
  return JSON.stringify({ tool_tokens: toolTokens, system_tokens: 400, requests: turns });
}

test("consecutive turns share pieces and boundaries", () => {
  const [recorded] = readSessions(
    session([
      { ids: [[1, 110]], in: 7_050, out: 130 },
      { ids: [[1, 130]], in: 8_330, out: 50 },
    ]),
  );
  const [first, second] = recorded?.turns ?? [];
  expect(first?.boundaries).toEqual([0, 1]);
  expect(second?.boundaries).toEqual([0, 1, 2, 3]);
  expect(second?.lastTurn).toBe(1);
  expect(recorded?.boundaries.map(({ tokens }) => tokens)).toEqual([6_400, 7_050, 7_180, 8_330]);
  const path: number[] = [];
  for (let piece = second?.lastPiece ?? -1; piece >= 0; piece = recorded?.pieces[piece]?.parent ?? -1) path.push(piece);
  expect(path).toContain(first?.lastPiece);
  expect(path.reduce((sum, piece) => sum + (recorded?.pieces[piece]?.tokens ?? 0), 0)).toBe(130 * 64);
});

test("a changed history has new boundaries after the change", () => {
  const [recorded] = readSessions(
    session([
      { ids: [[1, 110]], in: 7_050, out: 130 },
      { ids: [[1, 130]], in: 8_330, out: 50 },
      {
        ids: [
          [1, 105],
          [200, 240],
        ],
        in: 9_350,
        out: 50,
      },
    ]),
  );
  const [, second, third] = recorded?.turns ?? [];
  expect(third?.boundaries.slice(0, 1)).toEqual(second?.boundaries.slice(0, 1));
  expect(new Set([...(third?.boundaries ?? []), ...(second?.boundaries ?? [])]).size).toBe(4 + 3 + 1);
  expect(third?.lastTurn).toBe(3);
});

test("sessions with heads of equal size share these and nothing else", () => {
  const turn = { ids: [[1, 110]] as const, in: 7_050, out: 130 };
  const recorded = readSessions([session([turn]), session([turn]), session([turn], 5_000)].join("\n"));
  const shared = recorded.map(({ pieces }) => pieces.flatMap(({ sharedAs }) => sharedAs ?? []));
  expect(shared[0]).toEqual(shared[1]);
  expect(shared[0]?.length).toBeGreaterThan(0);
  expect(shared[2]?.some((name) => shared[0]?.includes(name))).toBe(false);
  expect(recorded[0]?.pieces.filter(({ sharedAs }) => sharedAs === undefined)).toHaveLength(1);
});
