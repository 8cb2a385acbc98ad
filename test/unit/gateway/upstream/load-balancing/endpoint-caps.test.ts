import { expect, test } from "vitest";
import { isWithinCaps } from "../../../../../gateway/upstream/load-balancing/endpoint-caps.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

test.each([
  ["idle", {}, true],
  ["just below both caps", { slots: 2, waiting: 4, kvUse: 0.94 }, true],
  ["with a full queue", { slots: 2, waiting: 5 }, false],
  ["of many slots with a short queue", { slots: 64, waiting: 63 }, true],
  ["of many slots with a full queue", { slots: 64, waiting: 64 }, false],
  ["with a full KV cache", { kvUse: 0.95 }, false],
])("an endpoint %s", (_, given, expected) => {
  expect(isWithinCaps(endpointWith({ address: "e", ...given }))).toBe(expected);
});
