import { expect, test } from "vitest";
import { SessionAccounts } from "../../../../../gateway/upstream/admission/session-accounts.ts";

const served = (seconds: number) => ({ served: seconds, wanted: 0 });

/** The accounts of two gateways, and what has the first tell the other what it knew at an earlier moment. */
function twoGateways() {
  const [one, other] = [new SessionAccounts(), new SessionAccounts()];
  return { one, other, tell: (atMs: number) => other.hear("one", one.tell(atMs), atMs) };
}

test("what another gateway has told of a session counts as what was served here", () => {
  const { one, other, tell } = twoGateways();
  one.count("s", { served: 30, wanted: 40 }, 0);
  other.count("s", { served: 2, wanted: 1 }, 0);
  other.count("of its own", { served: 5, wanted: 6 }, 0);
  tell(0);
  expect([other.of("s", 0), other.all(0)]).toEqual([
    { served: 32, wanted: 41 },
    { served: 37, wanted: 47 },
  ]);
  expect(one.of("s", 0)).toEqual({ served: 30, wanted: 40 });
});

test("what is told again counts once, and half ten minutes later", () => {
  const { one, other, tell } = twoGateways();
  one.count("s", served(60), 0);
  tell(0);
  one.count("s", served(20), 0);
  tell(0);
  tell(0);
  expect([other.of("s", 0).served, other.all(0).served]).toEqual([80, 80]);
  expect(other.of("s", 600_000).served).toBe(40);
});

test("tells of its own sessions only, for half a minute after they changed", () => {
  const { one, other, tell } = twoGateways();
  one.count("there", served(10), 0);
  tell(0);
  other.count("here", { served: 20.123_456, wanted: 100 }, 0);
  expect(other.tell(0)).toEqual({
    ...{ served: 20.12, wanted: 100 },
    sessions: [{ session: "here", served: 20.12, wanted: 100 }],
  });
  expect(other.tell(30_000).sessions.map(({ session }) => session)).toEqual(["here"]);
  expect(other.tell(30_001).sessions).toEqual([]);
});

test("tells of so many sessions at once, those that changed last", () => {
  const accounts = new SessionAccounts();
  for (let at = 0; at < 300; at += 1) accounts.count(`s${at}`, served(1), 0);
  const told = accounts.tell(0).sessions.map(({ session }) => session);
  expect([told.length, told[0], told.at(-1)]).toEqual([256, "s299", "s44"]);
});
