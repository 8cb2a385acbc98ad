import { expect, test } from "vitest";
import { routingHints } from "../../../../gateway/http/request-context.ts";
import { principalWith } from "../../../support/gateway/principal-with.ts";

const principal = principalWith({ queued: 3 });

test("digests for routing differ for every owner and part", () => {
  const { digest } = routingHints(principal, {});
  expect(digest("session", "1")).toBe(routingHints(principal, {}).digest("session", "1"));
  const stranger = { ...principal, routingKey: Buffer.alloc(32, 1) };
  expect(digest("a", "b")).not.toBe(routingHints(stranger, {}).digest("a", "b"));
  expect(digest("ab", "c")).not.toBe(digest("a", "bc"));
});

test("the hints have the key's queue limit", () => {
  expect(routingHints(principal, {})).toMatchObject({ keyId: "keyA", maxPendingRequests: 3, priorityClass: "default" });
});
