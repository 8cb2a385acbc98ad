import { describe, expect, test } from "vitest";
import { HashRing } from "../../../../../gateway/upstream/load-balancing/hash-ring.ts";
import { NOTHING_TOLD } from "../../../../../gateway/upstream/load-balancing/held-prefixes.ts";
import { createPolicy, LB_POLICIES, POLICIES } from "../../../../../gateway/upstream/load-balancing/policies.ts";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { balancerSettings } from "../../../../support/gateway/balancer-settings.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";
import { endpoints } from "./endpoint-with.ts";

const CANDIDATES = endpoints(3);
const ROUTE = {
  shape: { boundaries: [{ hash: "h", bytes: 4_000, marked: false }], lastTurn: undefined },
  affinityKey: "k",
  ttlMs: undefined,
};

describe.each(LB_POLICIES)("policy %s", (lbPolicy) => {
  const policy = () => {
    const settings = balancerSettings({ lbPolicy });
    const ring = new HashRing(CANDIDATES.map(({ address }) => ({ address, weight: 1 })));
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
    expect(CANDIDATES).toContain(picked?.endpoint);
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
