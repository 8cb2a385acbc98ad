import { expect, test } from "vitest";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { Watchdog } from "../../../../engine/node/watchdog.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

function watched<Time extends Clock>(clock: Time) {
  type Engine = {
    counts: boolean;
    made: number;
    inFlight: number;
    down?: boolean;
    silent?: boolean;
    startTimeoutMs?: number;
  };
  const engine: Engine = { counts: true, made: 0, inFlight: 0 };
  const seen: string[] = [];
  const watchdog = new Watchdog({
    clock,
    stallMs: 1_000,
    steps: () => (engine.counts ? { ...engine } : undefined),
    onStall: () => seen.push("stall"),
    onRecover: () => seen.push("recover"),
    probe: () => seen.push("probe"),
  });
  watchdog.start();
  const step = () => {
    engine.made += 1;
  };
  return { clock, engine, seen, watchdog, step };
}

test("departing and arriving callers do not count as steps", async () => {
  const { clock, engine, seen, watchdog } = watched(new VirtualClock());
  for (let caller = 0; caller < 4; caller += 1) {
    expect(seen).toEqual([]);
    engine.inFlight = 1;
    await clock.advance(250);
    engine.inFlight = 0;
    await clock.advance(5_000);
    expect(watchdog.stepAgeMs).toBe(caller < 3 ? 0 : 6_000);
  }
  expect(seen[0]).toBe("stall");
});

test("the age of a step starts after the time that it may take", async () => {
  const { clock, engine, seen, watchdog } = watched(new VirtualClock());
  Object.assign(engine, { inFlight: 1, stepTimeoutMs: 60_000 });
  await clock.advance(60_500);
  expect([seen, watchdog.stepAgeMs]).toEqual([[], 500]);
  await clock.advance(500);
  expect(seen).toEqual(["stall"]);
  await clock.advance(8_750);
  expect(watchdog.hung).toBe(false);
  await clock.advance(250);
  expect(watchdog.hung).toBe(true);
});

test.each(["down", "silent"])(
  "an engine that is %s is reported by the next check, and returns with its next step",
  async (how) => {
    const { clock, engine, seen, watchdog, step } = watched(new VirtualClock());
    Object.assign(engine, { inFlight: 1, stepTimeoutMs: 60_000, [how]: true });
    await clock.advance(250);
    expect(seen).toEqual(["stall"]);
    Object.assign(engine, { inFlight: 0, [how]: false });
    await clock.advance(250);
    expect([seen.at(-1), watchdog.hung]).toEqual(["probe", false]);
    step();
    await clock.advance(250);
    expect(seen.at(-1)).toBe("recover");
  },
);

test("a suspended process does not blame the engine", () => {
  let nowMs = 0;
  let wake = () => {};
  const after = (_ms: number, run: () => void) => {
    wake = run;
    return () => {};
  };
  const clock = { nowMs: () => nowMs, wallMs: () => nowMs, after };
  const { engine, seen, watchdog } = watched(clock);
  engine.inFlight = 1;
  nowMs += 3_600_000;
  wake();
  expect(seen).toEqual([]);
  expect(watchdog.stepAgeMs).toBe(500);
});
