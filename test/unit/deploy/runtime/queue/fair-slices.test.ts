import { expect, test } from "vitest";
import { FairSlices } from "../../../../../deploy/runtime/queue/fair-slices.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what is due at once is done a few pieces in each turn, and a caller with one waits for few of another's", async () => {
  const slices = new FairSlices();
  const done: string[] = [];
  for (let at = 0; at < 200; at += 1) slices.run("crowd", () => done.push("crowd"));
  slices.run("alone", () => done.push("alone"));
  const inFirst = done.length;
  expect(inFirst).toBeLessThan(50);
  await turn();
  expect(done.indexOf("alone")).toBeLessThanOrEqual(inFirst + 1);
  expect(done.indexOf("alone")).toBeGreaterThan(0);
  const perTurn: number[] = [];
  for (let before = done.length; done.length < 201; before = done.length) {
    await turn();
    perTurn.push(done.length - before);
  }
  expect(Math.max(...perTurn)).toBeLessThan(50);
  expect(done.filter((who) => who === "crowd")).toHaveLength(200);
});

test("a piece that comes alone is done at once", () => {
  const done: string[] = [];
  new FairSlices().run("alone", () => done.push("alone"));
  expect(done).toEqual(["alone"]);
});
