import { expect, test } from "vitest";
import { FIRST_RANK, SessionService } from "../../../../../gateway/upstream/admission/session-service.ts";

const HOUR_MS = 3_600_000;

const turn = (session: string, change = {}) => ({
  ...{ session, ofUser: false, seconds: 10, sinceMs: 0, latestMs: HOUR_MS },
  ...change,
});

test("the session that was served least comes first, its own prefill counted", () => {
  const service = new SessionService();
  service.serve("much", 60, 0);
  service.serve("little", 20, 0);
  const rank = (session: string, seconds: number) => service.rankOf(turn(session, { seconds }), 0);
  expect(rank("none", 10)).toBeGreaterThan(rank("little", 10));
  expect(rank("little", 10)).toBeGreaterThan(rank("much", 10));
  expect(rank("little", 55)).toBeLessThan(rank("much", 10));
});

test("of two sessions that were served alike, the one comes first that waited longer for it", () => {
  const service = new SessionService();
  for (const [session, wanted] of [["rare", 30] as const, ["starved", 400] as const]) {
    service.serve(session, 20, 0);
    service.want(session, wanted, 0);
  }
  expect(service.rankOf(turn("starved"), 0)).toBeGreaterThan(service.rankOf(turn("rare"), 0));
  // A long turn of the one that starves comes before a short one of the other.
  expect(service.rankOf(turn("starved", { seconds: 30 }), 0)).toBeGreaterThan(service.rankOf(turn("rare"), 0));
});

test("a turn that waits comes before later ones of sessions that were served a little less, and then not before all", () => {
  const service = new SessionService();
  const waits = service.rankOf(turn("waits", { seconds: 12 }), 0);
  expect(waits).toBeLessThan(service.rankOf(turn("short", { sinceMs: 15_000 }), 15_000));
  expect(waits).toBeGreaterThan(service.rankOf(turn("later", { sinceMs: 25_000 }), 25_000));
});

test.each([
  { all: "a tenth", served: 100, first: "short" },
  { all: "a half", served: 500, first: "starved" },
])("where all get $all of what they want, the turn of the $first session comes first", ({ served, first }) => {
  const service = new SessionService();
  service.serve("others", served - 30, 0);
  service.want("others", 900, 0);
  // It has had 0.3 of what it wanted: much where all have a tenth, little where they have a half.
  service.serve("starved", 30, 0);
  service.want("starved", 100, 0);
  const ranks = ["starved", "short"].map((session) => ({
    session,
    rank: service.rankOf(turn(session, { seconds: session === "short" ? 5 : 10 }), 0),
  }));
  expect(ranks.toSorted((one, other) => other.rank - one.rank)[0]?.session).toBe(first);
});

test("what was counted ten minutes ago counts half", () => {
  const service = new SessionService();
  service.serve("earlier", 60, 0);
  service.serve("now", 29, 600_000);
  service.serve("more", 31, 600_000);
  const rank = (session: string) => service.rankOf(turn(session), 600_000);
  expect(rank("now")).toBeGreaterThan(rank("earlier"));
  expect(rank("earlier")).toBeGreaterThan(rank("more"));
});

test("a session that comes back after an hour waits about as one that is new, whatever it had", () => {
  const service = new SessionService();
  service.serve("served", 500, 0);
  service.want("starved", 2_000, 0);
  const rank = (session: string) => service.rankOf(turn(session, { sinceMs: HOUR_MS, latestMs: 2 * HOUR_MS }), HOUR_MS);
  expect(Math.abs(rank("served") - rank("new"))).toBeLessThan(100);
  expect(Math.abs(rank("starved") - rank("new"))).toBeLessThan(100);
});

test("a turn is due at the latest when it was told to be: before all that come behind and are not owed anything", () => {
  const service = new SessionService();
  service.serve("heavy", 10_000, 0);
  service.want("starved", 500, 0);
  const heavy = service.rankOf(turn("heavy", { seconds: 50, latestMs: 240_000 }), 0);
  expect(heavy).toBeGreaterThan(service.rankOf(turn("new", { sinceMs: 241_000 }), 241_000));
  // Who starves for longer than the turn has been due comes first all the same.
  expect(heavy).toBeLessThan(service.rankOf(turn("starved", { sinceMs: 241_000 }), 241_000));
});

test("a turn of a user comes before one of what a tool returned, and all behind who needs no prefill", () => {
  const service = new SessionService();
  service.serve("a", 1e12, 0);
  service.want("c", 1e12, 0);
  const never = { latestMs: Number.POSITIVE_INFINITY };
  const ranks = [turn("c", never), turn("b", { ofUser: true }), turn("b"), turn("a", never)].map((one) =>
    service.rankOf(one, 0),
  );
  expect(ranks).toEqual(ranks.toSorted((x, y) => y - x));
  expect(new Set(ranks).size).toBe(4);
  expect(ranks[0]).toBeLessThan(FIRST_RANK);
});

test("forgets the sessions that were not served for longest where there are too many", () => {
  const service = new SessionService();
  for (let at = 0; at <= 20_000; at += 1) service.serve(`s${at}`, 1, 0);
  const rank = (session: string) => service.rankOf(turn(session), 0);
  expect(rank("s0")).toBe(rank("nobody"));
  expect(rank("s20000")).toBeLessThan(rank("nobody"));
});
