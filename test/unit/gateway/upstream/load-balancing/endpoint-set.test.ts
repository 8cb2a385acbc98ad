import { describe, expect, test } from "vitest";
import { EndpointSet } from "../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import {
  type EndpointView,
  isAvailable,
  isWithinCaps,
  requestsOn,
} from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { endpoints, endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

test.each([
  ["its own count where the report is older", { activeRequests: 5, running: 2, waiting: 1 }, 5],
  ["the report where other gateways send, too", { activeRequests: 1, running: 4, waiting: 3 }, 7],
])("requests on an endpoint are %s", (_, given, expected) => {
  expect(requestsOn(endpointWith({ address: "e", ...given }))).toBe(expected);
});

function setOf(pool: readonly EndpointView[], maxRequestsPerEndpoint?: number) {
  const clock = new VirtualClock();
  const set = new EndpointSet({ clock, maxRequestsPerEndpoint });
  for (const endpoint of pool) set.set(endpoint);
  return { clock, set };
}

const addresses = (all: Iterable<EndpointView>) => [...all].map(({ address }) => address).sort();

test.each<[string, Partial<EndpointView>, "room" | "no room" | "unavailable"]>([
  ["idle", {}, "room"],
  ["unhealthy", { healthy: false }, "unavailable"],
  ["ejected", { ejected: true }, "unavailable"],
  ["draining", { draining: true }, "unavailable"],
  ["of another version", { compatible: false }, "unavailable"],
  ["just below both caps", { slots: 2, waiting: 4, kvUse: 0.94 }, "room"],
  ["with a full queue", { slots: 2, waiting: 5 }, "no room"],
  ["of many slots with a short queue", { slots: 64, waiting: 63 }, "room"],
  ["of many slots with a full queue", { slots: 64, waiting: 64 }, "no room"],
  ["with a full KV cache", { kvUse: 0.95 }, "no room"],
])("an endpoint that is %s: %s", (_, given, expected) => {
  const { set } = setOf([endpointWith({ address: "e", ...given })]);
  const [available, withRoom] = [set.available.all.length, set.withRoom.all.length];
  expect([available, withRoom]).toEqual({ room: [1, 1], "no room": [1, 0], unavailable: [0, 0] }[expected]);
});

test("an endpoint takes as many requests as it has slots, or as the limit says; onRoom is called at each gain", () => {
  for (const limit of [undefined, 2]) {
    const { set } = setOf([endpointWith({ address: "e", slots: 3 })], limit);
    let gained = 0;
    set.onRoom(() => {
      gained += 1;
    });
    for (let slot = 0; slot < (limit ?? 3); slot += 1) set.count("e", 1);
    expect([set.withRoom.all.length, set.running, set.capacity]).toEqual([0, limit ?? 3, limit ?? 3]);
    for (let slot = 0; slot < (limit ?? 3); slot += 1) set.count("e", -1);
    expect([set.withRoom.all.length, set.running, gained]).toEqual([1, 0, 1]);
    set.set(endpointWith({ address: "e", ejected: true }));
    set.set(endpointWith({ address: "e" }));
    expect(gained).toBe(2);
  }
});

describe("an endpoint that announced when it has room again", () => {
  test("has room when it comes back after it left, but for its running requests", () => {
    const { set } = setOf([endpointWith({ address: "e", slots: 1 })]);
    const left: string[] = [];
    set.onLeave((address) => left.push(address));
    set.holdBack("e", 5_000);
    set.count("e", 1);
    set.delete("e");
    set.set(endpointWith({ address: "e", slots: 1 }));
    expect([left, set.withRoom.all.length]).toEqual([["e"], 0]);
    set.count("e", -1);
    expect(set.withRoom.all.length).toBe(1);
  });
});

test.each<[string, readonly EndpointView[], readonly string[]]>([
  ["no_endpoints", [], []],
  ["none_available", [endpointWith({ address: "e0", healthy: false })], []],
  ["all_tried", endpoints(2), ["e0", "e1"]],
  ["all_full", endpoints(2), ["e0"]],
])("the reason why there is no pick: %s", (expected, pool, tried) => {
  expect(setOf(pool).set.noPick(new Set(tried))).toBe(expected);
});

test("changes counts when other endpoints become available", () => {
  const { set } = setOf([]);
  const grew = [{}, { running: 3 }, { healthy: false }, { healthy: false, weight: 2 }, {}, undefined].map((given) => {
    const before = set.changes;
    if (given) set.set(endpointWith({ address: "e", ...given }));
    else set.delete("e");
    return set.changes > before;
  });
  expect(grew).toEqual([true, false, true, false, true, true]);
});

test("random changes lead to the same result as a full scan of the endpoints", () => {
  const random = seededRandom(7);
  const maybe = (share: number) => random() < share;
  const { set } = setOf([]);
  const running: string[] = [];
  for (let step = 0; step < 4_000; step += 1) {
    const address = `e${Math.floor(random() * 12)}`;
    const kind = Math.floor(random() * 6);
    if (kind === 0) set.delete(address);
    else if (kind === 1) {
      running.push(address);
      set.count(address, 1);
    } else if (kind === 2) {
      const ended = running.shift();
      if (ended !== undefined) set.count(ended, -1);
    } else
      set.set(
        endpointWith({
          address,
          healthy: maybe(0.6),
          ejected: maybe(0.2),
          kvUse: maybe(0.1) ? 1 : 0,
          slots: 1 + Math.floor(random() * 4),
        }),
      );
    const pool = [...set];
    const available = pool.filter(isAvailable);
    const runningOn = (view: EndpointView) => running.filter((one) => one === view.address).length;
    const withRoom = available.filter((view) => isWithinCaps(view) && runningOn(view) < view.slots);
    expect(addresses(set.available.all)).toEqual(addresses(available));
    for (const view of available) expect(set.available.get(view.address)).toBe(view);
    expect(addresses(set.withRoom.all)).toEqual(addresses(withRoom));
    expect([set.size, set.running]).toEqual([pool.length, running.length]);
    expect(set.capacity).toBe(available.reduce((sum, { slots }) => sum + slots, 0));
  }
});

test("of a thousand endpoints, a change of one costs no read of the others", () => {
  const read = new Set<string>();
  const get = (view: EndpointView, name: keyof EndpointView) => {
    read.add(view.address);
    return view[name];
  };
  const { set } = setOf(endpoints(1_000).map((endpoint) => new Proxy(endpoint, { get })));
  read.clear();
  set.set(endpointWith({ address: "e3", healthy: false }));
  set.delete("e4");
  for (let slot = 0; slot < 8; slot += 1) set.count("e5", 1);
  expect([set.available.all.length, set.withRoom.all.length, set.capacity]).toEqual([998, 997, 998 * 8]);
  // One that takes the position of another in the lists is read for its name.
  expect(read.size).toBeLessThan(5);
});
