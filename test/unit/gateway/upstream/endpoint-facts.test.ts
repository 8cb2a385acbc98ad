import { expect, test } from "vitest";
import type { Endpoint } from "../../../../gateway/upstream/endpoint/endpoint.ts";
import { EndpointFacts } from "../../../../gateway/upstream/endpoint-facts.ts";
import { ModelDescription } from "../../../../proto/gen/svc/inference/v1/node_service.ts";

/** Endpoints with one window each, which count the reads of their descriptions. */
function described(...windows: readonly number[]) {
  const asked = { count: 0 };
  const endpoints = windows.map((contextWindow): Pick<Endpoint, "address" | "description"> => {
    const description = ModelDescription.fromPartial({ contextWindow });
    return {
      address: `10.0.0.${contextWindow}:1`,
      description: () => {
        asked.count += 1;
        return description;
      },
    };
  });
  return { asked, endpoints };
}

test("summarize all available endpoints, or the last known where none is", () => {
  const { endpoints } = described(100, 200);
  const facts = new EndpointFacts<(typeof endpoints)[number]>("m");
  expect([facts.described, facts.up]).toEqual([undefined, []]);
  for (const endpoint of endpoints) facts.note(endpoint, true);
  expect([facts.described?.contextWindow, facts.up]).toEqual([100, endpoints]);
  const [small, large] = endpoints;
  if (!small || !large) throw new Error("there are two");
  facts.note(small, false);
  expect([facts.described?.contextWindow, facts.up]).toEqual([200, [large]]);
  facts.forget(large);
  expect([facts.described?.contextWindow, facts.up]).toEqual([200, []]);
  expect(facts.acceptsImages).toBe(false);
});

test("a description is kept though it was never read while the endpoint was available", () => {
  const { endpoints } = described(100);
  const facts = new EndpointFacts<(typeof endpoints)[number]>("m");
  for (const isUp of [true, false]) for (const endpoint of endpoints) facts.note(endpoint, isUp);
  expect(facts.described?.contextWindow).toBe(100);
});

test("of many endpoints only the changed one is read", () => {
  const { asked, endpoints } = described(...Array.from({ length: 1_000 }, (_, at) => at + 1));
  const facts = new EndpointFacts<(typeof endpoints)[number]>("m");
  for (const endpoint of endpoints) facts.note(endpoint, true);
  expect([facts.described?.contextWindow, asked.count]).toEqual([1, 1_000]);
  for (let requests = 0; requests < 10; requests += 1)
    expect([facts.up.length, facts.acceptsImages]).toEqual([1_000, false]);
  const [first] = endpoints;
  if (first) facts.note(first, false);
  expect([facts.described?.contextWindow, asked.count]).toEqual([2, 1_001]);
});
