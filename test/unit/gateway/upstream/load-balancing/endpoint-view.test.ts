import { expect, test } from "vitest";
import { isAvailable, isWithinCaps, requestsOn } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";

test.each([
  ["healthy", {}, true],
  ["unhealthy", { healthy: false }, false],
  ["ejected", { ejected: true }, false],
  ["draining", { draining: true }, false],
  ["of another version", { compatible: false }, false],
])("an endpoint that is %s", (_, given, available) => {
  expect(isAvailable(endpointWith({ address: "e", ...given }))).toBe(available);
});

test.each([
  ["its own count where the report is older", { activeRequests: 5, running: 2, waiting: 1 }, 5],
  ["the report where other gateways send, too", { activeRequests: 1, running: 4, waiting: 3 }, 7],
])("requests on an endpoint are %s", (_, given, expected) => {
  expect(requestsOn(endpointWith({ address: "e", ...given }))).toBe(expected);
});

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
