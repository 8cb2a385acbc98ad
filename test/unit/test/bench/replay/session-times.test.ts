import { expect, test } from "vitest";
import { SessionTimes } from "../../../../bench/replay/session-times.ts";

test("sessions that ended in the period are grouped by their number of turns", () => {
  const times = new SessionTimes();
  const play = (name: string, turns: number, counts: boolean) => {
    for (let turn = 0; turn < turns; turn += 1) times.answered(name, 1_000);
    times.ended(name, counts);
  };
  play("warm-up", 5, false);
  for (const turns of [1, 5, 6, 20, 21, 40]) play(`of ${turns}`, turns, true);
  times.answered("open", 9_000);
  expect(times.waitsMs()).toHaveLength(6);
  expect(times.byTurns()).toMatchObject({
    ...{ sessionP50SFew: 1, sessionP99SFew: 5, sessionP50SSome: 6, sessionP99SSome: 20 },
    ...{ sessionP50SMany: 21, sessionP99SMany: 40 },
  });
  times.endAll();
  expect(times.waitsMs()).toHaveLength(7);
});
