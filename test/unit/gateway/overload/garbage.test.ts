import { expect, test } from "vitest";
import { Garbage } from "../../../../gateway/overload/garbage.ts";

const MIB = 1024 * 1024;

function garbage() {
  let collections = 0;
  const looked = new Garbage(() => {
    collections += 1;
  });
  const look = (nowMs: number, short: boolean, goneMiB = 0, heldMiB = 0, utilization = 0) => {
    looked.look(nowMs, short, { goneBytes: goneMiB * MIB, heldBytes: heldMiB * MIB, utilization });
    return collections;
  };
  return look;
}

test("is collected while memory is short, not at every look", () => {
  const look = garbage();
  expect([look(0, false), look(250, true), look(500, true), look(10_249, true), look(10_250, true)]).toEqual([
    0, 1, 1, 1, 2,
  ]);
});

test("is collected when big bodies have come and gone, not while many others are under way", () => {
  const look = garbage();
  expect([look(0, false), look(250, false, 8, 64), look(500, false, 8, 63), look(20_000, false, 8)]).toEqual([
    0, 0, 1, 1,
  ]);
  // The last of a crowd are collected as well, in their time.
  expect([look(20_250, false, 70), look(20_500, false, 75), look(30_249, false, 75), look(30_250, false, 75)]).toEqual([
    2, 2, 2, 3,
  ]);
});

test("is collected for bodies that are gone only when the loop is hardly used, and for memory that is short at once", () => {
  const look = garbage();
  expect([look(0, false, 8, 0, 0.5), look(250, false, 8, 0, 0.1), look(500, false, 8, 0, 0.09)]).toEqual([0, 0, 1]);
  expect([look(20_000, false, 16, 0, 0.5), look(20_250, true, 16, 0, 0.5)]).toEqual([1, 2]);
});

test("asks V8 for real", async () => {
  const gone = new WeakRef({});
  // Whatever was looked at in this turn is held until its end.
  await new Promise((resolve) => setImmediate(resolve));
  new Garbage().look(0, true, { goneBytes: 0, heldBytes: 0, utilization: 1 });
  expect(gone.deref()).toBeUndefined();
});
