import { describe, expect, onTestFinished, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";
import { OVERLOAD_ACTIONS } from "../../../../gateway/overload/overload-action.ts";
import { OverloadManager } from "../../../../gateway/overload/overload-manager.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const INTERVAL_MS = 250;

function managerWith(overloadManager: object) {
  const clock = new VirtualClock();
  const { overloadManager: settings } = checkConfig(
    gatewayConfigSchema,
    { keys: { file: "keys.json" }, clusters: [], overloadManager },
    "test",
  );
  const manager = new OverloadManager(settings, clock);
  onTestFinished(() => manager.close());
  const looks = async (count: number) => {
    for (let i = 0; i < count; i += 1) await clock.advance(INTERVAL_MS);
  };
  const active = () => OVERLOAD_ACTIONS.filter((action) => manager.isActive(action));
  return { manager, looks, active };
}

describe("the overload manager", () => {
  test("leaves a process alone that is well", async () => {
    const { manager, looks, active } = managerWith({});
    await looks(5);
    expect(active()).toEqual([]);
    expect(manager.pressures.fixedHeap).toBeGreaterThan(0);
    expect(manager.pressures.inflightBodyBytes).toBe(0);
  });

  test("acts on a heap that is full", async () => {
    const { looks, active } = managerWith({ resourceMonitors: { fixedHeap: { maxHeapSizeBytes: 1 } } });
    await looks(1);
    expect(active()).toEqual([]);
    await looks(1);
    expect(active()).toEqual(OVERLOAD_ACTIONS);
  });

  test("acts step by step as bodies fill their room, and ends when they are gone", async () => {
    const { manager, looks, active } = managerWith({ resourceMonitors: { inflightBodyBytes: { maxBytes: 1_000 } } });
    const body = manager.bodies.begin();
    const steps = [];
    for (const bytes of [800, 50, 100]) {
      body.add(bytes);
      await looks(2);
      steps.push(active());
    }
    expect(steps).toEqual([
      ["disableHttpKeepalive"],
      ["disableHttpKeepalive", "rejectNonCritical"],
      ["disableHttpKeepalive", "rejectNonCritical", "stopAcceptingRequests"],
    ]);
    body.release();
    await looks(4);
    expect(active()).toEqual([]);
  });

  test("takes no body of some size that the heap has no room for, without a look", () => {
    const fixedHeap = { maxHeapSizeBytes: 1 };
    const { manager } = managerWith({ resourceMonitors: { fixedHeap } });
    expect([manager.lacksFor(100_000), manager.mayParse(100_000)]).toEqual(["fixed_heap", false]);
    expect([manager.lacksFor(1_000), manager.mayParse(1_000)]).toEqual([undefined, true]);
    const actions = { stopAcceptingRequests: { fixedHeap: null } };
    const { manager: careless } = managerWith({ resourceMonitors: { fixedHeap }, actions });
    expect([careless.lacksFor(100_000), careless.mayParse(100_000)]).toEqual([undefined, true]);
  });

  test("takes no body that the others on their way leave no room for", () => {
    const { manager } = managerWith({ resourceMonitors: { inflightBodyBytes: { maxBytes: 1_000 } } });
    manager.bodies.begin().add(600);
    expect([manager.lacksFor(400), manager.lacksFor(401)]).toEqual([undefined, "inflight_body_bytes"]);
  });

  test("looks no more once it is closed", async () => {
    const { manager, looks, active } = managerWith({ resourceMonitors: { fixedHeap: { maxHeapSizeBytes: 1 } } });
    manager.close();
    await looks(5);
    expect(active()).toEqual([]);
  });
});
