import { pino } from "pino";
import { expect, test } from "vitest";
import { RequestContext } from "../../../../gateway/http/request-context.ts";
import { Sealing } from "../../../../gateway/sealing/sealing.ts";
import { ClusterManager } from "../../../../gateway/upstream/cluster-manager.ts";
import { FORMAT_SETTINGS } from "../../../support/events/format-settings.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";
import { principalWith } from "../limits/principal-with.ts";

/** A gateway's context, with sealing keys of its own. */
function context(): RequestContext {
  const clusters = new ClusterManager([], new VirtualClock(), pino({ enabled: false }));
  return new RequestContext(clusters, new Sealing(), FORMAT_SETTINGS);
}

const [one, other] = [context(), context()];
const principal = principalWith({});

test("gateways that share keys but not the sealing keys agree on where a conversation belongs", () => {
  const hints = [one, other].map((each) => each.routingHints(principal, "svc-qwen", {}));
  expect(hints[0]?.prefixKey).toEqual(hints[1]?.prefixKey);
  expect(hints[0]?.digest("session", "1")).toBe(hints[1]?.digest("session", "1"));
  const cache = { affinityKey: "mine", isolationSalt: "", ttl: undefined };
  expect(one.cacheHints(principal, cache)).toEqual(other.cacheHints(principal, cache));
});

test("digests for routing differ for every owner and model, and part what is joined", () => {
  const stranger = { ...principal, routingKey: Buffer.alloc(32, 1) };
  const { prefixKey, digest } = one.routingHints(principal, "svc-qwen", {});
  expect(prefixKey).not.toEqual(one.routingHints(principal, "svc-glm53", {}).prefixKey);
  expect(prefixKey).not.toEqual(one.routingHints(stranger, "svc-qwen", {}).prefixKey);
  expect(digest("a", "b")).not.toBe(one.routingHints(stranger, "svc-qwen", {}).digest("a", "b"));
  expect(digest("ab", "c")).not.toBe(digest("a", "bc"));
  expect(one.cacheHints(principal, undefined).affinityKey).toBe("");
});
