import { expect, test } from "vitest";
import { type Summarized, summaryOf } from "../../../../../gateway/upstream/cluster/described-model.ts";
import { Capability, Modality, ModelDescription } from "../../../../../proto/gen/svc/inference/v1/node_service.ts";

/** An endpoint with this description. */
function described(given: Partial<ModelDescription> | undefined, available = true) {
  const description = given && ModelDescription.fromPartial(given);
  return { endpoint: {} as Summarized["endpoint"], available, description };
}

const BOUNDED = { contextWindow: 100, maxOutputTokens: 80, longestTokenBytes: 10 };

test("the properties of a model are those that all available endpoints have", () => {
  const [prefixes, images] = [Capability.PREFIX_EVENTS, Modality.IMAGE];
  const small = described({ ...BOUNDED, capabilities: [prefixes] });
  const large = described({ contextWindow: 200, capabilities: [prefixes, Capability.UNSPECIFIED] });
  const loading = described({ contextWindow: 0 });
  const down = described({ contextWindow: 10, inputModalities: [images] }, false);
  const { up, described: found, acceptsImages } = summaryOf([small, large, loading, down]);
  expect(up).toHaveLength(3);
  expect(found).toEqual({
    contextWindow: 100,
    maxOutputTokens: 80,
    acceptsImages: false,
    capabilities: new Set([prefixes]),
  });
  expect(acceptsImages).toBe(true);
});

test("without an available endpoint, or a reported window, there are none", () => {
  expect(summaryOf([]).described).toBeUndefined();
  expect(summaryOf([described(BOUNDED, false), described({}), described(undefined)]).described).toBeUndefined();
});

test("prompt limits are those of all endpoints, if all report them", () => {
  const bounds = [{ contextWindow: 100, longestTokenBytes: 10 }];
  expect(summaryOf([described(BOUNDED), described(BOUNDED, false)]).promptBounds).toEqual(bounds);
  expect(summaryOf([described(BOUNDED), described(undefined)]).promptBounds).toEqual([]);
});
