import { describe, expect, test } from "vitest";
import { pickLeastRequest } from "../../../../../../gateway/upstream/load-balancing/policies/least-request.ts";
import { endpoints, endpointWith, tally } from "../../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../../support/seeded-random.ts";

const byWeight = ({ weight }: { readonly weight: number }) => weight;

describe("least request", () => {
  test("has no pick from an empty list", () => {
    expect(pickLeastRequest([], 2, byWeight, seededRandom(1))).toBeUndefined();
  });

  test("with all candidates compared picks the least loaded", () => {
    const pool = [5, 2, 9].map((activeRequests, index) => endpointWith({ address: `e${index}`, activeRequests }));
    const random = seededRandom(3);
    for (let round = 0; round < 50; round += 1) {
      expect(pickLeastRequest(pool, 3, byWeight, random)?.address).toBe("e1");
    }
  });

  test("of two draws never picks the most loaded, and reaches all others", () => {
    const pool = [0, 1, 2, 3].map((activeRequests) => endpointWith({ address: `e${activeRequests}`, activeRequests }));
    const random = seededRandom(5);
    const counts = tally(Array.from({ length: 600 }, () => pickLeastRequest(pool, 2, byWeight, random)?.address));
    // Six pairs are equally likely: three hold e0, two more e1, one is e2 and e3.
    expect(Object.keys(counts).sort()).toEqual(["e0", "e1", "e2"]);
    expect(counts.e0).toBeGreaterThan(counts.e1 ?? 0);
    expect(counts.e1).toBeGreaterThan(counts.e2 ?? 0);
  });

  test("spreads evenly over idle endpoints", () => {
    const random = seededRandom(11);
    const pool = endpoints(4);
    const counts = tally(Array.from({ length: 4_000 }, () => pickLeastRequest(pool, 2, byWeight, random)?.address));
    for (const { address } of pool) expect(Math.abs((counts[address] ?? 0) - 1_000)).toBeLessThan(150);
  });

  test("divides requests by weight", () => {
    const pool = [
      endpointWith({ address: "big", weight: 4, activeRequests: 6 }),
      endpointWith({ address: "small", weight: 1, activeRequests: 1 }),
    ];
    expect(pickLeastRequest(pool, 2, byWeight, seededRandom(1))?.address).toBe("big");
  });
});
