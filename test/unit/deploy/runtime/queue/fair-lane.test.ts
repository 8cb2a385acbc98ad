import { expect, test } from "vitest";
import { FairLane } from "../../../../../deploy/runtime/queue/fair-lane.ts";

function lane() {
  const fair = new FairLane();
  const log: string[] = [];
  const enter = (name: string, key: string, cost = 1) => fair.enter({ key, cost }, () => log.push(name));
  return { fair, log, enter };
}

test("one goes at a time, and the keys take turns", () => {
  const { fair, log, enter } = lane();
  const leaves = new Map(
    [
      ["a1", "a"],
      ["a2", "a"],
      ["a3", "a"],
      ["b1", "b"],
    ].map(([name = "", key = ""]) => [name, enter(name, key)]),
  );
  expect([log, fair.waiting]).toEqual([["a1"], 3]);
  for (let turn = 0; turn < 4; turn += 1) leaves.get(log.at(-1) ?? "")?.();
  expect(log).toEqual(["a1", "b1", "a2", "a3"]);
});

test("work that gives up while it waits is skipped, and leaving twice admits only one", () => {
  const { fair, log, enter } = lane();
  const first = enter("first", "a");
  const second = enter("second", "b");
  enter("third", "c");
  enter("fourth", "d");
  second();
  first();
  first();
  second();
  expect([log, fair.waiting]).toEqual([["first", "third"], 1]);
});

test("a turn can be waited for", async () => {
  const fair = new FairLane();
  const leave = await fair.turn({ key: "a", cost: 1 });
  let second = false;
  const turn = fair.turn({ key: "b", cost: 1 }).then((end) => {
    second = true;
    return end;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(second).toBe(false);
  leave();
  (await turn)();
  expect(fair.waiting).toBe(0);
});
