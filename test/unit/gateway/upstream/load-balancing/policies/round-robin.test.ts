import { expect, test } from "vitest";
import { RoundRobin } from "../../../../../../gateway/upstream/load-balancing/policies/round-robin.ts";
import { endpoints, endpointWith } from "../../../../../support/gateway/upstream/endpoint-with.ts";

const byWeight = ({ weight }: { readonly weight: number }) => weight;

function picks(roundRobin: RoundRobin, pool: ReturnType<typeof endpoints>, count: number): string {
  return Array.from({ length: count }, () => roundRobin.pick(pool, byWeight)?.address).join(" ");
}

test("an empty list has no pick", () => {
  expect(new RoundRobin().pick([], byWeight)).toBeUndefined();
});

test("equal endpoints take turns", () => {
  expect(picks(new RoundRobin(), endpoints(3), 7)).toBe("e0 e1 e2 e0 e1 e2 e0");
});

test("a heavier endpoint gets its share, interleaved", () => {
  const pool = [endpointWith({ address: "a", weight: 3 }), ...["b", "c"].map((address) => endpointWith({ address }))];
  expect(picks(new RoundRobin(), pool, 5)).toBe("a b a c a");
});

test("an endpoint that was left out does not catch up at once", () => {
  const roundRobin = new RoundRobin();
  const pool = endpoints(3);
  picks(roundRobin, pool.slice(0, 2), 20);
  expect(
    picks(roundRobin, pool, 6)
      .split(" ")
      .filter((address) => address === "e2"),
  ).toHaveLength(2);
});

test("an endpoint that left and returns starts without credit", () => {
  const roundRobin = new RoundRobin();
  const pool = endpoints(2);
  picks(roundRobin, pool, 1);
  roundRobin.forget("e0");
  roundRobin.forget("e1");
  expect(picks(roundRobin, pool, 2)).toBe("e0 e1");
});
