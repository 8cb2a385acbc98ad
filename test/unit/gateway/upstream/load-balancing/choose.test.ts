import { describe, expect, test } from "vitest";
import { type Choice, pickFrom } from "../../../../../gateway/upstream/load-balancing/choose.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { PickableEndpoints } from "../../../../../gateway/upstream/load-balancing/pickable-endpoints.ts";
import { endpoints, endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

type Given = {
  readonly tried?: readonly string[];
  readonly hasRoom?: (endpoint: EndpointView) => boolean;
  readonly policy?: (candidates: readonly EndpointView[]) => EndpointView | undefined;
};

/** Makes one pick from these endpoints: by default the first candidate. */
function choose(pool: readonly EndpointView[], given: Given = {}): Choice<EndpointView> {
  const { tried = [], hasRoom = () => true, policy = ([first]) => first } = given;
  const pickable = new PickableEndpoints({ hasRoom });
  for (const endpoint of pool) pickable.changed(endpoint);
  return pickFrom(pickable, pickable.roomy, new Set(tried), ({ all }) => policy(all));
}

const nowhere = (): boolean => false;

describe("without a pick, the reason shows whether waiting helps", () => {
  const pool = endpoints(2);
  test.each<[string, readonly EndpointView[], Given]>([
    ["no_endpoints", [], {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, healthy: false })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, ejected: true })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, draining: true })), {}],
    ["none_available", pool.map((endpoint) => ({ ...endpoint, compatible: false })), {}],
    ["all_tried", pool, { tried: ["e0", "e1"] }],
    ["all_full", pool, { hasRoom: nowhere }],
    ["all_full", pool, { tried: ["e0"], hasRoom: nowhere }],
    ["all_full", pool, { policy: () => undefined }],
  ])("%s", (none, given, change) => {
    expect(choose(given, change)).toEqual({ none });
  });
});

test("candidates are the available, untried endpoints with room", () => {
  const pool = [
    endpointWith({ address: "down", healthy: false }),
    endpointWith({ address: "out", ejected: true }),
    endpointWith({ address: "draining", draining: true }),
    endpointWith({ address: "old", compatible: false }),
    endpointWith({ address: "tried" }),
    endpointWith({ address: "full" }),
    endpointWith({ address: "good" }),
  ];
  const seen: string[] = [];
  const policy = (candidates: readonly EndpointView[]) => {
    seen.push(...candidates.map(({ address }) => address));
    return candidates[0];
  };
  choose(pool, { policy, tried: ["tried"], hasRoom: ({ address }) => address !== "full" });
  expect(seen).toEqual(["good"]);
});
