import { expect, test } from "vitest";
import { atOnce, inTurns, needsTurns, type Steps } from "../../../gateway/event-loop-turn.ts";

function* three(happened: string[]): Steps<string> {
  happened.push("first");
  yield;
  happened.push("second");
  yield;
  happened.push("third");
  return "done";
}

function* oneOrTwo(pause: boolean): Steps<number> {
  if (pause) yield;
  return 1;
}

test("steps at once", () => {
  const happened: string[] = [];
  expect(atOnce(three(happened))).toBe("done");
  expect(happened).toEqual(["first", "second", "third"]);
});

test("steps in turns let others go between them", async () => {
  const happened: string[] = [];
  const result = inTurns(three(happened), () => {});
  setImmediate(() => happened.push("other"));
  expect(await result).toBe("done");
  expect(happened[0]).toBe("first");
  expect(happened.indexOf("other")).toBeLessThan(happened.indexOf("third"));
});

test("steps in turns end where nobody waits for them any more", async () => {
  const happened: string[] = [];
  const gone = new Error("gone");
  const result = inTurns(three(happened), () => {
    throw gone;
  });
  await expect(result).rejects.toBe(gone);
  expect(happened).toEqual(["first"]);
});

test("steps of one piece take no turn", async () => {
  let asked = 0;
  const count = () => {
    asked += 1;
  };
  expect(await inTurns(oneOrTwo(false), count)).toBe(1);
  expect(asked).toBe(0);
  expect(await inTurns(oneOrTwo(true), count)).toBe(1);
  expect(asked).toBe(1);
});

test("more than 256 KiB need turns", () => {
  expect([0, 256 * 1024, 256 * 1024 + 1].map(needsTurns)).toEqual([false, false, true]);
});
