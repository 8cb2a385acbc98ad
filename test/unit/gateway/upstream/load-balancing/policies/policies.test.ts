import { describe, expect, test } from "vitest";
import { EndpointList } from "../../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import {
  createPolicy,
  LB_POLICIES,
  pickLeastRequest,
  RoundRobin,
  slowStartWeights,
} from "../../../../../../gateway/upstream/load-balancing/policies/policies.ts";
import { PrefixIndex } from "../../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { endpoints, endpointWith, tally } from "../../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../../support/seeded-random.ts";
import { VirtualClock } from "../../../../../support/virtual-clock.ts";

const CANDIDATES = new EndpointList(endpoints(3));
const ROUTE = {
  shape: { boundaries: [{ hash: "h", bytes: 4_000, marked: false }], lastTurn: undefined },
  affinityKey: "k",
  ttlMs: undefined,
};

describe.each(LB_POLICIES)("policy %s", (lbPolicy) => {
  const policy = () =>
    createPolicy(lbPolicy, {
      prefixes: new PrefixIndex(),
      work: new WorkLedger(),
      clock: new VirtualClock(),
      random: () => 0.5,
    });

  test("a policy picks one of the candidates, and shares nothing with another cluster's policy of the same name", () => {
    const picks = () => {
      const one = policy();
      one.forget?.("e9");
      return Array.from({ length: 4 }, () => one.pick(CANDIDATES, ROUTE, 0)?.endpoint);
    };
    for (const picked of picks()) expect(CANDIDATES.all).toContain(picked);
    expect(picks()).toEqual(picks());
  });
});

const byWeight = ({ weight }: { readonly weight: number }) => weight;

describe("least request", () => {
  const busy = (...counts: readonly number[]) =>
    counts.map((activeRequests, index) => endpointWith({ address: `e${index}`, activeRequests }));
  const picksOf = (pool: ReturnType<typeof busy>, count: number) => {
    const random = seededRandom(5);
    return tally(Array.from({ length: count }, () => pickLeastRequest(pool, byWeight, random)?.address));
  };

  test("least request never picks the most loaded, and reaches all others, the less loaded more often", () => {
    const { e0 = 0, e1 = 0, e2 = 0, e3 = 0 } = picksOf(busy(0, 1, 2, 3), 600);
    // Six pairs are equally likely: three hold e0, two more e1, one is e2 and e3.
    expect([e0 > e1, e1 > e2, e2 > 0, e3]).toEqual([true, true, true, 0]);
  });

  test("least request spreads evenly over idle endpoints", () => {
    for (const count of Object.values(picksOf(endpoints(4), 4_000))) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });

  test("least request picks the only candidate, and none of none", () => {
    expect([picksOf(busy(7), 2), picksOf([], 2)]).toEqual([{ e0: 2 }, {}]);
  });

  test("least request counts requests by weight", () => {
    const big = endpointWith({ address: "big", weight: 4, activeRequests: 6 });
    expect(picksOf([big, ...busy(1)], 9)).toEqual({ big: 9 });
  });
});

describe("round robin", () => {
  const picks = (roundRobin: RoundRobin, pool: ReturnType<typeof endpoints>, count: number) =>
    Array.from({ length: count }, () => roundRobin.pick(pool, byWeight)?.address).join(" ");

  test.each([
    ["equals take turns", [1, 1, 1], 7, "e0 e1 e2 e0 e1 e2 e0"],
    ["a heavier one gets its share, spread out", [3, 1, 1], 5, "e0 e1 e0 e2 e0"],
    ["an empty list has no pick", [], 1, ""],
  ])("in round robin %s", (_, weights, count, expected) => {
    const pool = weights.map((weight, index) => endpointWith({ address: `e${index}`, weight }));
    expect(picks(new RoundRobin(), pool, count)).toBe(expected);
  });

  test("one that was left out for a while does not catch up all at once", () => {
    const roundRobin = new RoundRobin();
    picks(roundRobin, endpoints(2), 20);
    expect(picks(roundRobin, endpoints(3), 6).match(/e2/g)).toHaveLength(2);
  });

  test("one that left and returns starts anew", () => {
    const roundRobin = new RoundRobin();
    picks(roundRobin, endpoints(2), 1);
    for (const address of ["e0", "e1"]) roundRobin.forget(address);
    expect(picks(roundRobin, endpoints(2), 2)).toBe("e0 e1");
  });
});

test.each([
  ["from the beginning", undefined, 4],
  ["just now", 100_000, 0.4],
  ["half of the slow start ago", 85_000, 2],
  ["long ago", 0, 4],
])("the weight of an endpoint that has been available %s is %s", (_, healthySinceMs, expected) => {
  const weightOf = slowStartWeights(100_000);
  expect(weightOf(endpointWith({ address: "e", weight: 4, healthySinceMs }))).toBeCloseTo(expected, 10);
});
