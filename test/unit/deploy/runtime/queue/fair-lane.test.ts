import { expect, test } from "vitest";
import { FairLane } from "../../../../../deploy/runtime/queue/fair-lane.ts";

/** Enters the lane with work named by key and number; `leave` ends it. */
function lane(...names: readonly string[]) {
  const fair = new FairLane();
  const log: string[] = [];
  const enter = (name: string) => fair.enter({ key: name.charAt(0), cost: 1 }, () => log.push(name));
  const leaves = new Map(names.map((name) => [name, enter(name)]));
  return { log, leave: (name = "") => leaves.get(name)?.() };
}

test("one piece of work runs at a time, and the keys alternate", () => {
  const { log, leave } = lane("a1", "a2", "a3", "b1");
  for (let count = 1; count <= 4; count += 1) {
    expect(log.length).toBe(count);
    leave(log.at(-1));
  }
  expect(log).toEqual(["a1", "b1", "a2", "a3"]);
});

test("work that leaves while it waits is skipped, and leaving twice admits only one", () => {
  const { log, leave } = lane("a", "b", "c", "d");
  for (const name of ["b", "a", "a", "b"]) leave(name);
  expect(log).toEqual(["a", "c"]);
});
