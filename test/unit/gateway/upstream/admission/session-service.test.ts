import { expect, test } from "vitest";
import { FIRST_RANK, SessionService } from "../../../../../gateway/upstream/admission/session-service.ts";

const turn = (session: string, change = {}) => ({ session, ofUser: false, seconds: 10, overdue: false, ...change });

test("the session that was served least comes first, its own prefill counted", () => {
  const service = new SessionService();
  service.serve("much", 60, 0);
  service.serve("little", 20, 0);
  const rank = (session: string, seconds: number) => service.rankOf(turn(session, { seconds }), 0);
  expect(rank("none", 10)).toBeGreaterThan(rank("little", 10));
  expect(rank("little", 10)).toBeGreaterThan(rank("much", 10));
  expect(rank("little", 55)).toBeLessThan(rank("much", 10));
});

test("what a session was served counts half after five minutes, and adds up", () => {
  const service = new SessionService();
  service.serve("a", 60, 0);
  expect(service.of("a", 300_000)).toBeCloseTo(30);
  service.serve("a", 10, 300_000);
  expect(service.of("a", 600_000)).toBeCloseTo(20);
  expect(service.of("b", 0)).toBe(0);
});

test("overdue turns come before those of users, these before what tools returned, and all behind who needs no prefill", () => {
  const service = new SessionService();
  service.serve("a", 1e9, 0);
  const ranks = [turn("a", { overdue: true }), turn("a", { ofUser: true }), turn("b"), turn("a")].map((one) =>
    service.rankOf(one, 0),
  );
  expect(ranks).toEqual(ranks.toSorted((x, y) => y - x));
  expect(new Set(ranks).size).toBe(4);
  expect(ranks[0]).toBeLessThan(FIRST_RANK);
});

test("forgets the sessions that were not served for longest where there are too many", () => {
  const service = new SessionService();
  for (let at = 0; at <= 20_000; at += 1) service.serve(`s${at}`, 1, 0);
  expect(service.of("s0", 0)).toBe(0);
  expect(service.of("s20000", 0)).toBe(1);
});
