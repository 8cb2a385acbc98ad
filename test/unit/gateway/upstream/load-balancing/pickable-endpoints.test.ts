import { describe, expect, test } from "vitest";
import { type EndpointView, isAvailable } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import { PickableEndpoints } from "../../../../../gateway/upstream/load-balancing/pickable-endpoints.ts";
import { endpoints, endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

const hasRoom = ({ activeRequests }: EndpointView) => activeRequests < 3;

function addresses(views: readonly EndpointView[]): readonly string[] {
  return views.map(({ address }) => address).sort();
}

test("random changes leave the same state as one pass over all endpoints", () => {
  const random = seededRandom(7);
  const maybe = (share: number) => random() < share;
  const views = new EndpointViews();
  const pickable = new PickableEndpoints({ hasRoom });
  views.follow(pickable);
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
          slots: 1 + Math.floor(random() * 4),
          activeRequests: Math.floor(random() * 5),
        }),
      );
    const pool = [...views];
    const available = pool.filter(isAvailable);
    expect(addresses(pickable.available.all)).toEqual(addresses(available));
    for (const view of available) expect(pickable.available.get(view.address)).toBe(view);
    expect(addresses(pickable.roomy.all)).toEqual(addresses(available.filter(hasRoom)));
    expect(pickable.total).toBe(pool.length);
    expect(pickable.capacity).toBe(available.reduce((sum, { slots }) => sum + slots, 0));
  }
});

describe("with a thousand endpoints", () => {
  /** Endpoints that count every read of theirs, with room unless `full` contains them. */
  function thousand() {
    const read = new Set<string>();
    const full = new Set<string>();
    const views = new EndpointViews();
    const pickable = new PickableEndpoints({ hasRoom: ({ address }) => !full.has(address) });
    for (const endpoint of endpoints(1_000)) {
      const get = (view: EndpointView, name: keyof EndpointView) => {
        read.add(view.address);
        return view[name];
      };
      views.set(new Proxy(endpoint, { get }));
    }
    views.follow(pickable);
    read.clear();
    return { read, full, views, pickable };
  }

  test("a change of one reads no other", () => {
    const { read, views, pickable } = thousand();
    views.set(endpointWith({ address: "e3", healthy: false }));
    views.delete("e4");
    expect({ available: pickable.available.size, capacity: pickable.capacity }).toEqual({
      available: 998,
      capacity: 998 * 8,
    });
    // The endpoint that moves to the freed index is read for its address.
    expect(read.size).toBeLessThan(4);
  });

  test("one that fills up or gains room reads no other", () => {
    const { read, full, views, pickable } = thousand();
    const view = views.get("e5");
    if (!view) throw new Error("e5 is there");
    full.add("e5");
    pickable.reconsider(view);
    expect(pickable.roomy.all.length).toBe(999);
    expect(pickable.available.all.length).toBe(1_000);
    full.delete("e5");
    pickable.reconsider(view);
    expect(pickable.roomy.get("e5")).toBe(view);
    expect(read.size).toBeLessThan(4);
  });
});

test("onRoom is called only when an endpoint gains room", () => {
  let told = 0;
  let room = false;
  const onRoom = () => {
    told += 1;
  };
  const views = new EndpointViews();
  const pickable = new PickableEndpoints({ hasRoom: () => room, onRoom });
  views.follow(pickable);
  const view = endpointWith({ address: "e" });
  views.set(view);
  expect(told).toBe(0);
  room = true;
  pickable.reconsider(view);
  expect(told).toBe(1);
  pickable.reconsider(view);
  views.set(endpointWith({ address: "e", running: 1 }));
  expect(told).toBe(1);
  views.set(endpointWith({ address: "e", ejected: true }));
  views.set(endpointWith({ address: "e" }));
  expect(told).toBe(2);
});

test("changes increases when the set of available endpoints changes", () => {
  const pickable = new PickableEndpoints();
  const numbers = [pickable.changes];
  for (const view of [{}, { running: 3 }, { healthy: false }, { healthy: false, weight: 2 }, {}]) {
    pickable.changed(endpointWith({ address: "e", ...view }));
    numbers.push(pickable.changes);
  }
  pickable.left(endpointWith({ address: "e" }));
  numbers.push(pickable.changes);
  const grew = numbers.slice(1).map((number, at) => number > (numbers[at] ?? 0));
  expect(grew).toEqual([true, false, true, false, true, true]);
});
