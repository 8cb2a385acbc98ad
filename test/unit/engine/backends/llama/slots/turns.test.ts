import { expect, test } from "vitest";
import { tokenCost } from "../../../../../../engine/backends/llama/slots/token-cost.ts";
import { type AskedStep, Turns } from "../../../../../../engine/backends/llama/slots/turns.ts";

const COST = tokenCost(256);
const NEVER_WAITED = () => 0;

/** The time that a round takes, in milliseconds, of an engine that computes one step after the other. */
const oneByOne = (round: readonly AskedStep[]) => round.reduce((sum, { tokens }) => sum + tokens / 1_000, 0.5);
/** That of an engine for which the number of steps hardly matters. */
const together = (round: readonly AskedStep[]) => 20 + round.length / 100;

const HEAVY: readonly AskedStep[] = Array.from({ length: 6 }, () => ({
  tenant: "heavy",
  tokens: 2_000,
  isFirst: false,
}));
const LIGHT: AskedStep = { tenant: "light", tokens: 40, isFirst: false };
const NEWCOMER: AskedStep = { ...LIGHT, isFirst: true };

/** Plays rounds in which `asked` is asked for again and again; returns what each took, and the share of the heavy steps. */
function play(
  rounds: number,
  msOf: (round: readonly AskedStep[]) => number,
  asked: (at: number) => readonly AskedStep[],
) {
  const turns = new Turns(COST);
  const times: number[] = [];
  const went: boolean[] = [];
  for (let at = 0; at < rounds; at += 1) {
    const round = turns.choose(asked(at));
    const ms = msOf(round);
    turns.ended(ms, NEVER_WAITED);
    times.push(ms);
    went.push(round.some(({ tenant }) => tenant === "heavy"));
  }
  return { meanMs: times.reduce((sum, ms) => sum + ms, 0) / rounds, went };
}

test("rounds beside a heavy tenant take twice as long on average as without, and its answers go on", () => {
  const { meanMs, went } = play(1_000, oneByOne, () => [...HEAVY, LIGHT]);
  const aloneMs = oneByOne([LIGHT]);
  expect(meanMs / aloneMs).toBeGreaterThan(1.8);
  expect(meanMs / aloneMs).toBeLessThanOrEqual(2.05);
  expect(went.filter(Boolean).length).toBeGreaterThan(30);
});

test("two heavy tenants stretch the others' rounds no more than one", () => {
  const both = [...HEAVY, ...HEAVY.map((step) => ({ ...step, tenant: "other" }))];
  const lights = ["a", "b", "c", "d"].map((tenant) => ({ ...LIGHT, tenant }));
  const { meanMs } = play(1_000, oneByOne, () => [...both, ...lights]);
  expect(meanMs / oneByOne(lights)).toBeLessThanOrEqual(2.05);
});

test("where more steps cost hardly more, nobody stands aside behind the first round", () => {
  const { went } = play(100, together, () => [...HEAVY, LIGHT]);
  expect(went.slice(1)).not.toContain(false);
});

test("a newcomer's first token has a round without the heavy, though never two in a row", () => {
  const newcomers = play(100, together, () => [...HEAVY, NEWCOMER]).went;
  expect(newcomers).toEqual(newcomers.map((_, at) => at % 2 === 1));
  expect(
    play(100, together, (at) => [...HEAVY, at % 10 === 9 ? NEWCOMER : LIGHT]).went.filter((went) => !went),
  ).toHaveLength(11);
});

test("whoever is alone, or has no more than twice what the others have, stands aside for nobody", () => {
  expect(play(20, oneByOne, () => HEAVY).went).not.toContain(false);
  expect(play(20, oneByOne, () => [...HEAVY, { ...LIGHT, tokens: 6_000 }]).went).not.toContain(false);
});

test("a debt is forgotten where the heavy tenant is alone for a round, and is a second at most", () => {
  const turns = new Turns(COST);
  const round = (asked: readonly AskedStep[], ms: number) => {
    const chosen = turns.choose(asked);
    turns.ended(ms, NEVER_WAITED);
    return chosen.length;
  };
  expect(round([...HEAVY, LIGHT], 1)).toBe(1);
  expect(round([...HEAVY, LIGHT], 60_000)).toBe(7);
  expect(round([...HEAVY, LIGHT], 1)).toBe(1);
  expect(round(HEAVY, 60_000)).toBe(1);
  // Alone for as long as that it is nobody's debtor, and the next of the others shows anew what they take.
  expect(round([...HEAVY, LIGHT], 1)).toBe(1);
  expect(round([...HEAVY, LIGHT], 60_000)).toBe(2);
  let waited = 0;
  while (round([...HEAVY, LIGHT], 1) === 1) waited += 1;
  expect(waited).toBe(1_000);
});

/** Plays rounds of a caller who asks again for each step that has ended; returns the number of heavy steps in each. */
function playQueue(turns: Turns, rounds: number, others: readonly AskedStep[]) {
  let asked = HEAVY.map((step, at) => ({ ...step, tokens: step.tokens + at }));
  const went = asked.map(() => 0);
  const counts: number[] = [];
  for (let at = 0; at < rounds; at += 1) {
    const round = turns.choose([...asked, ...others]);
    turns.ended(oneByOne(round), NEVER_WAITED);
    const mine = asked.filter((step) => round.includes(step));
    for (const { tokens } of mine) went[tokens - 2_000] = (went[tokens - 2_000] ?? 0) + 1;
    asked = [...asked.filter((step) => !mine.includes(step)), ...mine];
    counts.push(mine.length);
  }
  return { counts, went };
}

test("a round has as many steps of heavy tenants as take some milliseconds, and all of them get on alike", () => {
  const { counts, went } = playQueue(new Turns(COST), 1_000, [LIGHT]);
  // The first round with them shows what they take.
  expect(Math.max(...counts.slice(10))).toBe(2);
  expect(Math.max(...went) - Math.min(...went)).toBeLessThanOrEqual(1);
  expect(Math.min(...went)).toBeGreaterThan(30);
});

test("short rounds go on while others come and go, and end with them", () => {
  const turns = new Turns(COST);
  playQueue(turns, 100, [LIGHT]);
  const { counts } = playQueue(turns, 2_000, []);
  expect(counts.slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, () => 2));
  expect(counts.slice(-500)).toEqual(Array.from({ length: 500 }, () => 6));
  expect(turns.lightMs).toBeUndefined();
});

test("the piece of a prompt behind a long context has its round for itself", () => {
  const turns = new Turns(COST);
  const piece = { tenant: "heavy", tokens: 3_500, added: 16, isFirst: false };
  for (let at = 0; at < 100; at += 1) {
    const round = turns.choose([...HEAVY, LIGHT]);
    turns.ended(oneByOne(round), NEVER_WAITED);
  }
  const withPiece = Array.from({ length: 100 }, () => {
    const round = turns.choose([piece, ...HEAVY, LIGHT]);
    turns.ended(oneByOne(round) + (round.includes(piece) ? 40 : 0), NEVER_WAITED);
    return round.filter(({ tenant }) => tenant === "heavy");
  });
  const its = withPiece.filter((heavy) => heavy.includes(piece));
  expect(its.length).toBeGreaterThan(0);
  for (const heavy of its) expect(heavy).toEqual([piece]);
});

test("where processors were short, heavy tenants alone rest, as long as nobody else asks, and not for long", () => {
  const turns = new Turns(COST);
  const round = (asked: readonly AskedStep[], ms: number, waitedMs = 0) => {
    turns.choose(asked);
    turns.ended(ms, () => waitedMs);
  };
  // Whoever was never beside others is not heavy.
  round(HEAVY, 10, 10);
  expect(turns.restMs(HEAVY)).toBe(0);
  round([...HEAVY, LIGHT], 1, 1);
  round([...HEAVY, LIGHT], 1, 0.1);
  expect(turns.restMs(HEAVY)).toBe(0);
  round(HEAVY, 10, 3);
  const restMs = turns.restMs(HEAVY);
  expect(restMs).toBeGreaterThan(20);
  expect(turns.restMs([...HEAVY, LIGHT])).toBe(0);
  // What was waited for before the round counts no more than the round.
  round(HEAVY, 1, 1_000);
  expect(turns.restMs(HEAVY)).toBeLessThan(restMs);
  round(HEAVY, 1_000, 1_000);
  expect(turns.restMs(HEAVY)).toBe(50);
  round(HEAVY, 10);
  expect(turns.restMs(HEAVY)).toBe(0);
});

test("rests end with the others", () => {
  const turns = new Turns(COST);
  playQueue(turns, 10, [LIGHT]);
  const restsMs = Array.from({ length: 200 }, () => {
    turns.choose(HEAVY);
    turns.ended(10, () => 10);
    return turns.restMs(HEAVY);
  });
  expect(restsMs[0]).toBe(50);
  expect(restsMs.at(-1)).toBe(0);
  // They are a part of the time for which a tenant is alone.
  expect(restsMs.filter((ms) => ms > 0).length).toBeLessThan(100);
});
