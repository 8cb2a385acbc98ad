import { expect, test } from "vitest";
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
  ["the report where other gateways send, too", { gateways: 2, activeRequests: 1, running: 4, waiting: 3 }, 7],
  ["its own count where it is alone, whatever an old report says", { activeRequests: 0, running: 1, waiting: 0 }, 0],
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
    const withCapacity = available.filter((view) => isWithinCaps(view) && runningOn(view) < view.slots);
    expect(addresses(set.available.all)).toEqual(addresses(available));
    for (const view of available) expect(set.available.get(view.address)).toBe(view);
    expect(addresses(set.withCapacity.all)).toEqual(addresses(withCapacity));
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
  expect([set.available.all.length, set.withCapacity.all.length, set.capacity]).toEqual([998, 997, 998 * 8]);
  // One that takes the position of another in the lists is read for its name.
  expect(read.size).toBeLessThan(5);
});
