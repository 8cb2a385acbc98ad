import { expect, test } from "vitest";
import { isWithinCaps } from "../../../../../gateway/upstream/load-balancing/endpoint-caps.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

test.each([
  ["idle", {}, true],
  ["just below both caps", { waiting: 4, kvUse: 0.94 }, true],
  ["with a full queue", { waiting: 5 }, false],
  ["with a full KV cache", { kvUse: 0.95 }, false],
])("an endpoint %s", (_, given, expected) => {
  expect(isWithinCaps(endpointWith({ address: "e", ...given }))).toBe(expected);
});
