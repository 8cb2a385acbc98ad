import { describe, expect, test } from "vitest";
import { EndpointList } from "../../../../../gateway/upstream/load-balancing/candidates.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { HashRing } from "../../../../../gateway/upstream/load-balancing/hash-ring.ts";
import { NOTHING_TOLD } from "../../../../../gateway/upstream/load-balancing/held-prefixes.ts";
import { createPolicy, LB_POLICIES, POLICIES } from "../../../../../gateway/upstream/load-balancing/policies.ts";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { seededRandom } from "../../../../bench/routing/seeded-random.ts";
import { balancerSettings } from "../../../../support/gateway/balancer-settings.ts";
import { endpoints } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const CANDIDATES = new EndpointList(endpoints(3));
const ROUTE = {
  shape: { boundaries: [{ hash: "h", bytes: 4_000, marked: false }], lastTurn: undefined },
  affinityKey: "k",
  session: "s",
  ofUser: true,
  ttlMs: undefined,
};

describe.each(LB_POLICIES)("policy %s", (lbPolicy) => {
  const policy = () => {
    const settings = balancerSettings({ lbPolicy });
    const ring = new HashRing(CANDIDATES.all);
    return createPolicy(settings, {
      ring: () => ring,
      prefixes: NOTHING_TOLD,
      slowStart: settings.slowStart,
      work: new WorkLedger(),
      clock: new VirtualClock(),
      random: () => 0.5,
    });
  };

  test("is the cluster's when it is named, with defaults for all of its settings", () => {
    const picked = policy().pick(CANDIDATES, ROUTE, 0);
    expect(CANDIDATES.all).toContain(picked?.endpoint);
  });

  test("shares nothing with another cluster's policy of the same name", () => {
    const picks = () => {
      const one = policy();
      return Array.from({ length: 4 }, () => one.pick(CANDIDATES, ROUTE, 0)?.endpoint.address);
    };
    expect(picks()).toEqual(picks());
  });

  test("takes it well when an endpoint that it never met leaves", () => {
    expect(() => policy().forget?.("nobody")).not.toThrow();
  });
});

test("every policy says in one sentence how it picks", () => {
  for (const { summary } of Object.values(POLICIES)) expect(summary).toMatch(/^[A-Z][^.]*\.$/);
});

test.each(["prefix_affinity", "least_request"] as const)("of a thousand endpoints %s looks at a few", (lbPolicy) => {
  const settings = balancerSettings({ lbPolicy });
  const looked = new Set<string>();
  const get = (view: EndpointView, name: keyof EndpointView) => {
    looked.add(view.address);
    return view[name];
  };
  const pool = endpoints(1_000);
  const ring = new HashRing(pool);
  const candidates = new EndpointList(pool.map((view) => new Proxy(view, { get })));
  const random = seededRandom(1);
  const parts = { prefixes: NOTHING_TOLD, slowStart: settings.slowStart, work: new WorkLedger() };
  const policy = createPolicy(settings, { ...parts, ring: () => ring, clock: new VirtualClock(), random });
  for (let picks = 0; picks < 20; picks += 1) {
    looked.clear();
    policy.pick(candidates, ROUTE, 0)?.placement?.begin();
    expect(looked.size).toBeLessThanOrEqual(8);
  }
});
