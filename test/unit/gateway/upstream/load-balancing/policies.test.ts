import { describe, expect, test } from "vitest";
import { EndpointList } from "../../../../../gateway/upstream/load-balancing/candidates.ts";
import { createPolicy, LB_POLICIES, POLICIES } from "../../../../../gateway/upstream/load-balancing/policies.ts";
import { PrefixIndex } from "../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { endpoints } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

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

  test("picks one of the candidates", () => {
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

  test("accepts that an unknown endpoint leaves", () => {
    expect(() => policy().forget?.("nobody")).not.toThrow();
  });
});

test("every policy describes its picking in one sentence", () => {
  for (const { summary } of Object.values(POLICIES)) expect(summary).toMatch(/^[A-Z][^.]*\.$/);
});
