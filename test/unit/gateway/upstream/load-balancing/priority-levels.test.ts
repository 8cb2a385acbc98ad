import { describe, expect, test } from "vitest";
import { type LevelHealth, priorityLoads } from "../../../../../gateway/upstream/load-balancing/priority-levels.ts";
import { seededRandom } from "../../../../bench/routing/seeded-random.ts";
import { balancerSettings } from "../../../../support/gateway/balancer-settings.ts";

/** Envoy's default. */
const BY_DEFAULT = balancerSettings();
const ENVOY = { ...BY_DEFAULT, healthyPanicThreshold: 50 };

const levels = (...percents: readonly number[]): LevelHealth[] =>
  percents.map((available) => ({ available, total: 100 }));

const loadsOf = (healthy: readonly number[], settings = ENVOY) =>
  priorityLoads(levels(...healthy), settings).map(({ loadPercent }) => loadPercent);

describe("loads of priorities, from the tables of Envoy's page on priority levels", () => {
  test.each([
    [
      [100, 100],
      [100, 0],
    ],
    [
      [72, 100],
      [100, 0],
    ],
    [
      [71, 100],
      [99, 1],
    ],
    [
      [50, 100],
      [70, 30],
    ],
    [
      [25, 100],
      [35, 65],
    ],
    [
      [0, 100],
      [0, 100],
    ],
    [
      [72, 72],
      [100, 0],
    ],
    [
      [71, 71],
      [99, 1],
    ],
    [
      [50, 50],
      [70, 30],
    ],
    [
      [25, 25],
      [50, 50],
    ],
    [
      [100, 100, 100],
      [100, 0, 0],
    ],
    [
      [72, 72, 100],
      [100, 0, 0],
    ],
    [
      [71, 71, 100],
      [99, 1, 0],
    ],
    [
      [50, 50, 100],
      [70, 30, 0],
    ],
    [
      [25, 100, 100],
      [35, 65, 0],
    ],
    [
      [25, 25, 100],
      [35, 35, 30],
    ],
  ])("healthy %j %% are sent %j %%", (healthy, expected) => {
    expect(loadsOf(healthy)).toEqual(expected);
  });

  test("healthy [25, 25, 20] % are sent [36, 36, 28] % where there is no panic", () => {
    expect(loadsOf([25, 25, 20], BY_DEFAULT)).toEqual([36, 36, 28]);
  });
});

describe("panic, from the tables of Envoy's page on the panic threshold", () => {
  // Two rows of its second table (50/60 and 25/100) contradict the formula, which the page on priorities gives.
  test.each([
    [
      [72, 100],
      [100, 0],
      [false, false],
    ],
    [
      [71, 100],
      [99, 1],
      [false, false],
    ],
    [
      [50, 100],
      [70, 30],
      [false, false],
    ],
    [
      [25, 100],
      [35, 65],
      [false, false],
    ],
    [
      [0, 100],
      [0, 100],
      [false, false],
    ],
    [
      [72, 72],
      [100, 0],
      [false, false],
    ],
    [
      [71, 71],
      [99, 1],
      [false, false],
    ],
    [
      [25, 25],
      [50, 50],
      [true, true],
    ],
    [
      [5, 65],
      [7, 93],
      [true, false],
    ],
  ])("healthy %j %% are sent %j %%, in panic: %j", (healthy, loads, panic) => {
    expect(priorityLoads(levels(...healthy), ENVOY)).toEqual(
      loads.map((loadPercent, index) => ({ loadPercent, panic: panic[index] })),
    );
  });

  test("all endpoints of the only priority are used when none is healthy", () => {
    expect(priorityLoads(levels(0), ENVOY)).toEqual([{ loadPercent: 100, panic: true }]);
  });

  test("at a threshold of 0 % there is none: nothing is sent when none is healthy", () => {
    expect(priorityLoads(levels(0, 0), BY_DEFAULT)).toEqual([
      { loadPercent: 0, panic: false },
      { loadPercent: 0, panic: false },
    ]);
  });
});

test("a priority without endpoints gets nothing and is never in panic", () => {
  const given = [
    { available: 0, total: 0 },
    { available: 1, total: 4 },
  ];
  expect(priorityLoads(given, ENVOY)).toEqual([
    { loadPercent: 0, panic: false },
    { loadPercent: 100, panic: true },
  ]);
});

test("loads of whatever health are whole percents, none below 0, and 100 together or nothing", () => {
  const random = seededRandom(2);
  for (let round = 0; round < 2_000; round += 1) {
    const given = Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
      const total = Math.floor(random() * 9);
      return { available: Math.floor(random() * (total + 1)), total };
    });
    const healthyPanicThreshold = random() < 0.5 ? 0 : 50;
    const loads = priorityLoads(given, { overprovisioningFactor: 140, healthyPanicThreshold });
    const sum = loads.reduce((all, { loadPercent }) => all + loadPercent, 0);
    const anything = given.some(({ available, total }) => available > 0 || (healthyPanicThreshold > 0 && total > 0));
    expect(sum).toBe(anything ? 100 : 0);
    for (const { loadPercent } of loads) {
      expect(Number.isInteger(loadPercent)).toBe(true);
      expect(loadPercent).toBeGreaterThanOrEqual(0);
    }
  }
});
