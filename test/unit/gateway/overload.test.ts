import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { connectionsFor, openFilesLimit } from "../../../gateway/http/connection/connection-cap.ts";
import { BodyBudget, type InflightBody } from "../../../gateway/overload/body-budget.ts";
import { type ActionChange, OVERLOAD_ACTIONS, OverloadManager } from "../../../gateway/overload/overload-manager.ts";
import { overloadSchema } from "../../../gateway/overload/overload-settings.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const MIB = 1024 * 1024;
const WAIT_MS = 10_000;

function budget(maxBytes: number) {
  const clock = new VirtualClock();
  const bodies = new BodyBudget({ maxBytes, clock });
  const log: string[] = [];
  /** Begins a body that announces `bytes`, and records its outcome by name. */
  const announce = (name: string, tenant: string, bytes: number): InflightBody => {
    const body = bodies.begin(tenant);
    void body.reserve(bytes).then((lack) => log.push(`${name} ${lack ?? "in"}`));
    return body;
  };
  return { clock, bodies, log, announce };
}

describe("the budget of bodies", () => {
  test("the budget of bodies counts bodies together as they arrive, and releases them once", () => {
    const { bodies } = budget(100);
    const [one, other] = [bodies.begin("a"), bodies.begin("b")];
    expect([one.add(60), other.add(40), bodies.bytes]).toEqual([undefined, undefined, 100]);
    expect([bodies.begin("c").add(1), bodies.bytes]).toEqual(["inflight_body_bytes", 100]);
    one.release();
    one.release();
    expect([bodies.bytes, bodies.begin("c").add(60), bodies.bytes]).toEqual([40, undefined, 100]);
  });

  test("the budget of bodies counts a large body by its announced size at once, a small one by its arrived bytes", async () => {
    const { clock, bodies, announce } = budget(3 * MIB);
    const [big, small] = [announce("big", "a", 2 * MIB), announce("small", "b", 1_000)];
    await clock.advance(0);
    expect(bodies.bytes).toBe(2 * MIB);
    expect([big.add(2 * MIB), small.add(600), bodies.bytes]).toEqual([undefined, undefined, 2 * MIB + 600]);
    expect([small.add(1_000), bodies.bytes]).toEqual([undefined, 2 * MIB + 1_600]);
  });

  test("the budget of bodies lets a body wait, unread, until earlier ones have gone; a small one passes it", async () => {
    const { clock, bodies, log, announce } = budget(3 * MIB);
    const first = announce("first", "a", 2 * MIB);
    announce("second", "b", 3 * MIB);
    announce("third", "c", MIB);
    announce("small", "d", 1_000);
    await clock.advance(0);
    expect([log, bodies.waiting]).toEqual([["first in", "small in"], 2]);
    first.release();
    await clock.advance(0);
    expect([log.at(-1), bodies.waiting, bodies.bytes]).toEqual(["second in", 1, 3 * MIB]);
  });

  test("the budget of bodies refuses a body after its time limit, or at once where it never fits", async () => {
    const { clock, bodies, log, announce } = budget(3 * MIB);
    announce("huge", "a", 3 * MIB + 1);
    announce("first", "a", 3 * MIB);
    announce("late", "b", MIB);
    await clock.advance(WAIT_MS - 1);
    expect(log).toEqual(["huge inflight_body_bytes", "first in"]);
    await clock.advance(1);
    expect([log.at(-1), bodies.waiting, bodies.bytes]).toEqual(["late inflight_body_bytes", 0, 3 * MIB]);
  });

  test("the budget of bodies admits the next body when the caller of a waiting one leaves", async () => {
    const { clock, bodies, log, announce } = budget(3 * MIB);
    announce("first", "a", 2 * MIB);
    const left = announce("left", "b", 3 * MIB);
    announce("third", "c", MIB);
    await clock.advance(0);
    left.release();
    await clock.advance(0);
    expect([log, bodies.bytes]).toEqual([["first in", "left inflight_body_bytes", "third in"], 3 * MIB]);
  });

  test("the budget of bodies has bytes for a third tenant beside any two, and for any single body", async () => {
    const { clock, bodies, log, announce } = budget(12 * MIB);
    for (let body = 0; body < 12; body += 1)
      for (const tenant of ["a", "b"]) announce(`${tenant}${body}`, tenant, MIB / 2);
    await clock.advance(0);
    expect(bodies.bytes).toBe(8 * MIB);
    announce("newcomer", "c", 4 * MIB);
    await clock.advance(0);
    expect(log.at(-1)).toBe("newcomer in");
  });
});

/** A manager whose process uses `rss` of 1,000 bytes of memory, which may be changed; pressures are checked in `checks`. */
function managerWith(resourceMonitors: object = {}, maxRssBytes = Number.MAX_SAFE_INTEGER) {
  const clock = new VirtualClock();
  const changes: ActionChange[] = [];
  const settings = overloadSchema.parse({ resourceMonitors });
  const manager = new OverloadManager(settings, clock, (change) => changes.push(change), maxRssBytes);
  onTestFinished(() => manager.close());
  const checks = async (count: number) => {
    for (let at = 0; at < count; at += 1) await clock.advance(250);
  };
  const active = () => OVERLOAD_ACTIONS.filter((action) => manager.isActive(action));
  return { clock, manager, checks, active, changes };
}

const memoryOf = (bytes: number) => vi.spyOn(process.memoryUsage, "rss").mockReturnValue(bytes);
afterEach(() => void vi.restoreAllMocks());

describe("the overload manager", () => {
  test("the overload manager takes no action in a healthy process, and none once it is closed", async () => {
    const { manager, checks, active } = managerWith();
    await checks(5);
    expect([active(), manager.pressures.fixedHeap > 0]).toEqual([[], true]);
    const full = managerWith({ fixedHeap: { maxHeapSizeBytes: 1 } });
    full.manager.close();
    await full.checks(5);
    expect(full.active()).toEqual([]);
  });

  test("the overload manager acts on a full heap in the second check", async () => {
    const { checks, active } = managerWith({ fixedHeap: { maxHeapSizeBytes: 1 } });
    await checks(1);
    expect(active()).toEqual([]);
    await checks(1);
    expect(active()).toEqual(OVERLOAD_ACTIONS);
  });

  test.each([
    [800, []],
    [900, ["releaseKeptAnswers"]],
    [960, OVERLOAD_ACTIONS],
  ] as const)(
    "the overload manager with %i of 1,000 bytes of memory in use takes the actions %j",
    async (bytes, expected) => {
      memoryOf(bytes);
      const { manager, checks, active, changes } = managerWith({}, 1_000);
      await checks(2);
      expect([active(), changes.map(({ action }) => action)]).toEqual([expected, expected]);
      expect(manager.pressures.processMemory).toBe(bytes / 1_000);
    },
  );

  test.each([
    ["starts after two checks in a row", [940, 960, 960], [false, false, true]],
    ["does not start where they alternate", [960, 700, 960, 700], [false, false, false, false]],
    ["ends after four good checks in a row", [960, 960, 840, 840, 840, 840], [false, true, true, true, true, false]],
    ["continues just below its trigger", [960, 960, 900, 900, 900, 900, 900], [false, ...Array(6).fill(true)]],
    ["counts good checks anew after a bad one", [960, 960, 1, 1, 1, 900, 1, 1, 1], [false, ...Array(8).fill(true)]],
  ])("an overload action %s", async (_, readings, expected) => {
    const memory = memoryOf(0);
    const { manager, checks } = managerWith({}, 1_000);
    const states: boolean[] = [];
    for (const bytes of readings) {
      memory.mockReturnValue(bytes);
      await checks(1);
      states.push(manager.isActive("stopAcceptingRequests"));
    }
    expect(states).toEqual(expected);
  });

  test("the overload manager gives bodies a quarter of a small memory, and at most 512 MiB", () => {
    expect(managerWith({}, 1_000_000).manager.bodies.maxBytes).toBe(250_000);
    expect(managerWith().manager.bodies.maxBytes).toBe(536_870_912);
  });

  test("the overload manager refuses a body of some size that exceeds heap or memory, without a check", () => {
    const heap = managerWith({ fixedHeap: { maxHeapSizeBytes: 1 } }).manager;
    expect([heap.lacksFor(100_000), heap.lacksFor(1_000)]).toEqual(["fixed_heap", undefined]);
    memoryOf(1_000 * MIB);
    const memory = managerWith({}, 2_000 * MIB).manager;
    expect([memory.lacksFor(250 * MIB), memory.lacksFor(100_000)]).toEqual(["process_memory", undefined]);
  });

  test("the overload manager refuses a body that exceeds the heap together with the bodies in translation", () => {
    const maxHeapSizeBytes = 4 * process.memoryUsage().heapUsed;
    const { manager } = managerWith({ fixedHeap: { maxHeapSizeBytes } });
    const bytes = 100_000;
    let bodies = 0;
    for (; manager.lacksFor(bytes) === undefined; bodies += 1) manager.countTranslated(bytes);
    expect(bodies).toBeGreaterThan(1);
    expect(bodies).toBeLessThan(maxHeapSizeBytes / bytes);
    for (; bodies > 0; bodies -= 1) manager.countTranslated(-bytes);
    expect(manager.lacksFor(bytes)).toBeUndefined();
  });
});

test("a blocked event loop is noticed by the tick that it delays, and stops requests if it stays so", async () => {
  const { clock, manager, checks, active } = managerWith();
  await clock.advance(60);
  clock.holdUp(3_000);
  await clock.advance(0);
  expect(manager.pressures.eventLoopDelay).toBeGreaterThan(0.95);
  expect(active()).toEqual([]);
  clock.holdUp(3_000);
  await clock.advance(0);
  expect(active()).toEqual(["stopAcceptingRequests"]);
  await checks(1);
  expect(manager.pressures.eventLoopDelay).toBe(0);
});

test("callers get three quarters of the descriptors, by the soft limit in Linux's format", () => {
  const text = ["Max processes             95961                95961                processes ", ""].join("\n");
  expect(openFilesLimit(`${text}Max open files            1024                 524288               files     `)).toBe(
    1_024,
  );
  expect(openFilesLimit("Max open files            unlimited            unlimited            files")).toBeUndefined();
  expect([256, 1_024, 1].map(connectionsFor)).toEqual([192, 768, 1]);
});
