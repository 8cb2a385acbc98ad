import { expect, test } from "vitest";
import { Arrivals, callerOf } from "../../../../../gateway/http/connection/arrivals.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("requests that come at once begin a few in each turn, and a caller with one waits for few of another's", async () => {
  const arrivals = new Arrivals();
  const began: string[] = [];
  for (let at = 0; at < 200; at += 1) arrivals.begin("crowd", () => began.push("crowd"));
  arrivals.begin("alone", () => began.push("alone"));
  const inFirst = began.length;
  expect(inFirst).toBeLessThan(50);
  await turn();
  expect(began.indexOf("alone")).toBeLessThanOrEqual(inFirst + 1);
  expect(began.indexOf("alone")).toBeGreaterThan(0);
  const perTurn: number[] = [];
  for (let before = began.length; began.length < 201; before = began.length) {
    await turn();
    perTurn.push(began.length - before);
  }
  expect(Math.max(...perTurn)).toBeLessThan(50);
  expect(began.filter((who) => who === "crowd")).toHaveLength(200);
});

test("a request that comes alone begins at once", () => {
  const began: string[] = [];
  new Arrivals().begin("alone", () => began.push("alone"));
  expect(began).toEqual(["alone"]);
});

test.each([
  [{ authorization: "Bearer one", "x-api-key": "two" }, "Bearer one"],
  [{ "x-api-key": "two" }, "two"],
  [{}, "192.0.2.1"],
])("a request with the head %o takes turns as %s", (headers, caller) => {
  expect(callerOf({ raw: { headers, socket: { remoteAddress: "192.0.2.1" } } } as never)).toBe(caller);
});
