import { expect, test } from "vitest";
import { atMostEvery } from "../../../../../deploy/runtime/log/process-log.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

test("a frequent line is logged at once, and then once per interval with its count", async () => {
  const clock = new VirtualClock();
  const said: (readonly [string, number])[] = [];
  const say = atMostEvery(clock, 1_000, (value: string, times) => said.push([value, times]));
  for (const value of ["a", "b", "c"]) say(value);
  await clock.advance(999);
  say("d");
  await clock.advance(1);
  say("e");
  say("f");
  expect(said).toEqual([
    ["a", 1],
    ["e", 4],
  ]);
});
