import { describe, expect, test } from "vitest";
import type { Candidates } from "../../../../../gateway/upstream/load-balancing/candidates.ts";
import { type Choice, type PickOptions, pickFrom } from "../../../../../gateway/upstream/load-balancing/choose.ts";
import { EndpointLevels } from "../../../../../gateway/upstream/load-balancing/endpoint-levels.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { pickRandom } from "../../../../../gateway/upstream/load-balancing/policies/random.ts";
import type { PrioritySettings } from "../../../../../gateway/upstream/load-balancing/priority-levels.ts";
import { seededRandom } from "../../../../bench/routing/seeded-random.ts";
import { endpoints, endpointWith, tally } from "../../../../support/gateway/upstream/endpoint-with.ts";

type Options = PickOptions<EndpointView> & {
  readonly hasRoom: (endpoint: EndpointView) => boolean;
  readonly priorities: PrioritySettings;
};

/** Makes one pick from these endpoints. */
function choose(pool: readonly EndpointView[], { hasRoom, priorities, ...picking }: Options): Choice<EndpointView> {
  const levels = new EndpointLevels(priorities, { hasRoom });
  for (const endpoint of pool) levels.changed(endpoint);
  return pickFrom(levels.levels, picking);
}

function options(given: Partial<Options> = {}): Options {
  return {
    tried: new Set(),
    hasRoom: () => true,
    priorities: { overprovisioningFactor: 140, healthyPanicThreshold: 0 },
    policy: ({ all: [first] }) => first,
    random: seededRandom(1),
    ...given,
  };
}

const addressOf = (choice: Choice<EndpointView>) => ("pick" in choice ? choice.pick.address : choice.none);

const nowhere = (): boolean => false;

describe("without a pick, the reason says whether waiting helps", () => {
  const pool = endpoints(2);
  test.each([
    ["no_endpoints", [], {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, healthy: false })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, ejected: true })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, draining: true })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, compatible: false })), {}],
    ["all_tried", pool, { tried: new Set(["e0", "e1"]) }],
    ["all_full", pool, { hasRoom: nowhere }],
    ["all_full", pool, { tried: new Set(["e0"]), hasRoom: nowhere }],
  ])("%s", (none, given, change) => {
    expect(choose(given, options(change))).toEqual({ none });
  });
});

describe("candidates", () => {
  test("are those that are available, have room and were not tried", () => {
    const pool = [
      endpointWith({ address: "down", healthy: false }),
      endpointWith({ address: "out", ejected: true }),
      endpointWith({ address: "draining", draining: true }),
      endpointWith({ address: "old", compatible: false }),
      endpointWith({ address: "tried" }),
      endpointWith({ address: "full" }),
      endpointWith({ address: "good" }),
    ];
    const change = { tried: new Set(["tried"]), hasRoom: ({ address }: EndpointView) => address !== "full" };
    expect(choose(pool, options(change))).toMatchObject({ pick: { address: "good" }, panic: false });
  });

  test("of a lower priority come when all of the first were tried or are full", () => {
    const pool = [
      endpointWith({ address: "own" }),
      endpointWith({ address: "other zone", priority: 1 }),
      endpointWith({ address: "overflow", priority: 2 }),
    ];
    expect(addressOf(choose(pool, options()))).toBe("own");
    expect(addressOf(choose(pool, options({ tried: new Set(["own"]) })))).toBe("other zone");
    const onlyLast = options({ hasRoom: ({ priority }) => priority === 2 });
    expect(addressOf(choose(pool, onlyLast))).toBe("overflow");
  });

  test("are drawn from priorities by their loads", () => {
    const pool = Array.from({ length: 8 }, (_, index) =>
      endpointWith({ address: `e${index}`, priority: index < 4 ? 0 : 1, healthy: index !== 0 && index !== 1 }),
    );
    const given = options();
    // Half of the first priority is healthy: it gets 70 %.
    const counts = tally(Array.from({ length: 2_000 }, () => addressOf(choose(pool, given))));
    expect(Math.abs((counts.e2 ?? 0) - 1_400)).toBeLessThan(70);
    expect(Math.abs((counts.e4 ?? 0) - 600)).toBeLessThan(70);
  });
});

describe("in panic", () => {
  const priorities = { overprovisioningFactor: 140, healthyPanicThreshold: 50 };

  test("unhealthy and ejected endpoints are picked, too, but none that would refuse", () => {
    const pool = [
      endpointWith({ address: "draining", draining: true }),
      endpointWith({ address: "old", compatible: false }),
      endpointWith({ address: "down", healthy: false }),
      endpointWith({ address: "out", ejected: true }),
    ];
    const seen: string[][] = [];
    const policy = ({ all }: Candidates) => {
      seen.push(all.map(({ address }) => address));
      return all[0];
    };
    expect(choose(pool, options({ priorities, policy }))).toMatchObject({ pick: { address: "down" }, panic: true });
    expect(seen).toEqual([["down", "out"]]);
  });

  test("what was tried stays out", () => {
    const pool = [endpointWith({ address: "down", healthy: false })];
    expect(choose(pool, options({ priorities, tried: new Set(["down"]) }))).toEqual({ none: "all_tried" });
  });
});

test("whatever the cluster looks like, no ejected, unhealthy, tried or full endpoint is picked outside panic", () => {
  const random = seededRandom(42);
  const maybe = (share: number) => random() < share;
  let picks = 0;
  for (let round = 0; round < 3_000; round += 1) {
    const pool = Array.from({ length: Math.floor(random() * 7) }, (_, index) =>
      endpointWith({
        address: `e${index}`,
        healthy: maybe(0.7),
        ejected: maybe(0.3),
        draining: maybe(0.1),
        compatible: maybe(0.9),
        priority: Math.floor(random() * 3),
        activeRequests: Math.floor(random() * 4),
      }),
    );
    const tried = new Set(pool.filter(() => maybe(0.2)).map(({ address }) => address));
    const choice = choose(
      pool,
      options({
        tried,
        hasRoom: ({ activeRequests }) => activeRequests < 3,
        priorities: { overprovisioningFactor: 140, healthyPanicThreshold: maybe(0.5) ? 0 : 50 },
        policy: (candidates) => pickRandom(candidates.all, () => 1, random),
        random,
      }),
    );
    const good = pool.filter(
      ({ address, healthy, ejected, draining, compatible, activeRequests }) =>
        healthy && !ejected && !draining && compatible && !tried.has(address) && activeRequests < 3,
    );
    if (!("pick" in choice)) {
      expect(good).toEqual([]);
      continue;
    }
    picks += 1;
    const { pick, panic } = choice;
    expect(tried.has(pick.address) || pick.draining || !pick.compatible || pick.activeRequests >= 3).toBe(false);
    if (!panic) expect(pick).toMatchObject({ healthy: true, ejected: false });
  }
  expect(picks).toBeGreaterThan(1_000);
});
