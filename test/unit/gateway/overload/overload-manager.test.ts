import { describe, expect, onTestFinished, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";
import { OVERLOAD_ACTIONS } from "../../../../gateway/overload/overload-action.ts";
import { type ActionChange, OverloadManager } from "../../../../gateway/overload/overload-manager.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const INTERVAL_MS = 250;

function managerWith(overloadManager: object) {
  const clock = new VirtualClock();
  const { overloadManager: settings } = checkConfig(
    gatewayConfigSchema,
    { keys: { file: "keys.json" }, clusters: [], overloadManager },
    "test",
  );
  const changes: ActionChange[] = [];
  const manager = new OverloadManager(settings, clock, (change) => changes.push(change));
  onTestFinished(() => manager.close());
  const looks = async (count: number) => {
    for (let i = 0; i < count; i += 1) await clock.advance(INTERVAL_MS);
  };
  const active = () => OVERLOAD_ACTIONS.filter((action) => manager.isActive(action));
  return { manager, looks, active, changes };
}

describe("the overload manager", () => {
  test("takes no action in a healthy process", async () => {
    const { manager, looks, active } = managerWith({});
    await looks(5);
    expect(active()).toEqual([]);
    expect(manager.pressures.fixedHeap).toBeGreaterThan(0);
  });

  test("acts on a heap that is full", async () => {
    const { looks, active } = managerWith({ resourceMonitors: { fixedHeap: { maxHeapSizeBytes: 1 } } });
    await looks(1);
    expect(active()).toEqual([]);
    await looks(1);
    expect(active()).toEqual(OVERLOAD_ACTIONS);
  });

  test("acts on exhausted memory, in the same order, and reports it", async () => {
    // Buffers are outside the heap, which is nearly empty.
    const rss = process.memoryUsage.rss();
    for (const [share, expected] of [
      [0.8, []],
      [0.9, ["releaseKeptAnswers"]],
      [1.5, OVERLOAD_ACTIONS],
    ] as const) {
      const resourceMonitors = { processMemory: { maxRssBytes: Math.round(rss / share) } };
      const { manager, looks, active, changes } = managerWith({ resourceMonitors });
      await looks(2);
      expect(active(), `${share}`).toEqual(expected);
      expect(changes.map(({ action }) => action)).toEqual(expected);
      expect(manager.pressures.processMemory).toBeGreaterThan(0);
    }
  });

  test("gives bodies a quarter of a small memory", () => {
    const { manager } = managerWith({ resourceMonitors: { processMemory: { maxRssBytes: 1_000_000 } } });
    expect(manager.bodies.maxBytes).toBe(250_000);
    expect(managerWith({}).manager.bodies.maxBytes).toBeLessThanOrEqual(536_870_912);
  });

  test("takes no body of some size that the heap has no room for, without a look", () => {
    const fixedHeap = { maxHeapSizeBytes: 1 };
    const { manager } = managerWith({ resourceMonitors: { fixedHeap } });
    expect([manager.lacksFor(100_000), manager.lacksFor(1_000)]).toEqual(["fixed_heap", undefined]);
  });

  test("refuses a body that exceeds the heap together with the bodies in translation", () => {
    const maxHeapSizeBytes = 4 * process.memoryUsage().heapUsed;
    const { manager } = managerWith({ resourceMonitors: { fixedHeap: { maxHeapSizeBytes } } });
    const bytes = 100_000;
    const endings: (() => void)[] = [];
    while (manager.lacksFor(bytes) === undefined) endings.push(manager.beginTranslation(bytes));
    expect(endings.length).toBeGreaterThan(1);
    expect(endings.length).toBeLessThan(maxHeapSizeBytes / bytes);
    for (const end of endings) end();
    expect(manager.lacksFor(bytes)).toBeUndefined();
  });

  test("takes no body of some size that memory has no room for, without a look", () => {
    const maxRssBytes = 2 * process.memoryUsage.rss();
    const { manager } = managerWith({ resourceMonitors: { processMemory: { maxRssBytes } } });
    expect([manager.lacksFor(maxRssBytes / 8), manager.lacksFor(100_000)]).toEqual(["process_memory", undefined]);
  });

  test("looks no more once it is closed", async () => {
    const { manager, looks, active } = managerWith({ resourceMonitors: { fixedHeap: { maxHeapSizeBytes: 1 } } });
    manager.close();
    await looks(5);
    expect(active()).toEqual([]);
  });
});
