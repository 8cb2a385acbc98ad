import { describe, expect, test } from "vitest";
import { EndpointLevels } from "../../../../../gateway/upstream/load-balancing/endpoint-levels.ts";
import {
  canServe,
  type EndpointView,
  isAvailable,
} from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import { priorityLoads } from "../../../../../gateway/upstream/load-balancing/priority-levels.ts";
import { seededRandom } from "../../../../bench/routing/seeded-random.ts";
import { endpoints, endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

const PRIORITIES = { overprovisioningFactor: 140, healthyPanicThreshold: 50 };
const CALM = { overprovisioningFactor: 140, healthyPanicThreshold: 0 };

const hasRoom = ({ activeRequests }: EndpointView) => activeRequests < 3;

/** What the levels are by one look at all endpoints. */
function byOneLook(pool: readonly EndpointView[]) {
  const priorities = [...new Set(pool.map(({ priority }) => priority))].sort((a, b) => a - b);
  const tiers = priorities.map((priority) => pool.filter((endpoint) => endpoint.priority === priority));
  const health = tiers.map((all) => ({ available: all.filter(isAvailable).length, total: all.length }));
  return priorityLoads(health, PRIORITIES).map(({ loadPercent, panic }, at) => {
    const usable = (tiers[at] ?? []).filter(panic ? canServe : isAvailable);
    return { loadPercent, panic, usable: addresses(usable), roomy: addresses(usable.filter(hasRoom)) };
  });
}

function addresses(views: readonly EndpointView[]): readonly string[] {
  return views.map(({ address }) => address).sort();
}

test("whatever comes, changes and goes, they are what one look at all endpoints would find", () => {
  const random = seededRandom(7);
  const maybe = (share: number) => random() < share;
  const views = new EndpointViews();
  const levels = new EndpointLevels(PRIORITIES, { hasRoom });
  views.follow(levels);
  for (let step = 0; step < 4_000; step += 1) {
    const address = `e${Math.floor(random() * 12)}`;
    if (maybe(0.2)) views.delete(address);
    else
      views.set(
        endpointWith({
          address,
          healthy: maybe(0.6),
          ejected: maybe(0.2),
          draining: maybe(0.1),
          compatible: maybe(0.9),
          priority: Math.floor(random() * 3),
          slots: 1 + Math.floor(random() * 4),
          activeRequests: Math.floor(random() * 5),
        }),
      );
    const pool = [...views];
    const expected = byOneLook(pool);
    const found = levels.levels.map(({ loadPercent, panic, usable, roomy }) => {
      for (const view of usable.all) expect(usable.get(view.address)).toBe(view);
      return { loadPercent, panic, usable: addresses(usable.all), roomy: addresses(roomy.all) };
    });
    expect(found).toEqual(expected);
    const usable = new Set(expected.flatMap((level) => level.usable));
    const slots = pool.filter((view) => usable.has(view.address)).reduce((sum, view) => sum + view.slots, 0);
    expect(levels).toMatchObject({ usable: usable.size, places: slots });
    expect(levels.hasRoom).toBe(expected.some(({ roomy }) => roomy.length > 0));
  }
});

describe("of a thousand endpoints", () => {
  /** Endpoints whose every reading is counted, with room as long as `full` does not have them. */
  function thousand() {
    const read = new Set<string>();
    const full = new Set<string>();
    const views = new EndpointViews();
    const levels = new EndpointLevels(CALM, { hasRoom: ({ address }) => !full.has(address) });
    for (const endpoint of endpoints(1_000)) {
      const get = (view: EndpointView, name: keyof EndpointView) => {
        read.add(view.address);
        return view[name];
      };
      views.set(new Proxy(endpoint, { get }));
    }
    views.follow(levels);
    read.clear();
    return { read, full, views, levels };
  }

  test("one that changes costs no look at the others", () => {
    const { read, views, levels } = thousand();
    views.set(endpointWith({ address: "e3", healthy: false }));
    views.delete("e4");
    expect({ usable: levels.usable, places: levels.places }).toEqual({ usable: 998, places: 998 * 8 });
    // The one that takes its place in the lists is asked for its name.
    expect(read.size).toBeLessThan(4);
  });

  test("one that is full, or is so no longer, costs no look at the others", () => {
    const { read, full, views, levels } = thousand();
    const view = views.get("e5");
    if (!view) throw new Error("e5 is there");
    full.add("e5");
    levels.reconsider(view);
    expect(levels.levels[0]?.roomy.all.length).toBe(999);
    expect(levels.levels[0]?.usable.all.length).toBe(1_000);
    full.delete("e5");
    levels.reconsider(view);
    expect(levels.levels[0]?.roomy.get("e5")).toBe(view);
    expect(read.size).toBeLessThan(4);
  });
});

test("whoever waits is told when an endpoint has room that had none, and not otherwise", () => {
  let told = 0;
  let room = false;
  const onRoom = () => {
    told += 1;
  };
  const views = new EndpointViews();
  const levels = new EndpointLevels(CALM, { hasRoom: () => room, onRoom });
  views.follow(levels);
  const view = endpointWith({ address: "e" });
  views.set(view);
  expect(told).toBe(0);
  room = true;
  levels.reconsider(view);
  expect(told).toBe(1);
  levels.reconsider(view);
  views.set(endpointWith({ address: "e", running: 1 }));
  expect(told).toBe(1);
  views.set(endpointWith({ address: "e", ejected: true }));
  views.set(endpointWith({ address: "e" }));
  expect(told).toBe(2);
});

test("the number of changes says whether others may be picked than before", () => {
  const levels = new EndpointLevels(CALM);
  const numbers = [levels.changes];
  for (const view of [{}, { running: 3 }, { healthy: false }, { healthy: false, weight: 2 }, {}]) {
    levels.changed(endpointWith({ address: "e", ...view }));
    numbers.push(levels.changes);
  }
  levels.left(endpointWith({ address: "e" }));
  numbers.push(levels.changes);
  const grew = numbers.slice(1).map((number, at) => number > (numbers[at] ?? 0));
  expect(grew).toEqual([true, false, true, false, true, true]);
});
